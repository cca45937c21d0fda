package series

import (
	"fmt"

	"github.com/flyteorg/flyte/v2/runs/cmd/flytepatch/internal/goedit"
)

const (
	otelutilsDir    = "flytestdlib/otelutils"
	otelutilsImport = module + "/" + otelutilsDir
)

// checkMetrics refuses a checkout whose metrics come from elsewhere.
func checkMetrics(t tree) error {
	files, err := t.goFiles(otelutilsDir, false)
	if err != nil {
		return err
	}
	for _, name := range files {
		file, err := t.parse(name)
		if err != nil {
			return err
		}
		fn := file.Func("", "GetMeterProvider")
		if fn == nil {
			continue
		}
		if !sameTypes(fn.ParamTypes(), []string{"string"}) || len(fn.ResultTypes()) != 1 {
			return fmt.Errorf("%s: %s has another signature than expected: %s", name, fn.Key(), fn.Head())
		}
		return nil
	}
	return fmt.Errorf("%s: %s is missing", otelutilsDir, goedit.FuncKey("", "GetMeterProvider"))
}

// putMetrics adds the package's metrics and has the pump and the listener measured where they are started.
func putMetrics(t tree, source Source) error {
	if err := putEngine(t, source, true); err != nil {
		return err
	}
	p, err := loadImpl(t)
	if err != nil {
		return err
	}
	if err := p.addImports(otelutilsImport); err != nil {
		return err
	}
	p.names.Metrics = p.action.ImportName(otelutilsImport)
	replacements, err := p.plan(startNotifyLoop, startPostgresListener)
	if err != nil {
		return err
	}
	if _, err := p.replace(replacements, "", ""); err != nil {
		return err
	}
	if err := p.save(); err != nil {
		return err
	}
	return p.putTemplates("notify_metrics.go", "notify_metrics_test.go")
}
