package load

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
)

// errFailed says that a call failed and has been noted.
var errFailed = errors.New("call failed")

// call makes one measured call. A failure that the answer reports in its status counts like one of the call. A call that our own
// end cut off is not noted.
func call[Request, Response any](
	ctx context.Context, l *Load, name string, request *Request,
	method func(context.Context, *connect.Request[Request]) (*connect.Response[Response], error),
	status func(*Response) *rpcstatus.Status,
) error {
	limited, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	begin := time.Now()
	response, err := method(limited, connect.NewRequest(request))
	took := time.Since(begin)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		l.recorder.Failed(name, connect.CodeOf(err).String(), err.Error())
		return errFailed
	}
	if status != nil {
		if s := status(response.Msg); s.GetCode() != 0 {
			l.recorder.Failed(name, connect.Code(s.GetCode()).String()+" (in band)", s.GetMessage())
			return errFailed
		}
	}
	l.recorder.Succeeded(name, took)
	return nil
}
