// Package otelutils hands out the providers that were registered for a service.
package otelutils

import (
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

var meterProviders sync.Map // service name to metric.MeterProvider

// RegisterMeterProvider makes GetMeterProvider answer with the provider for that service.
func RegisterMeterProvider(serviceName string, provider metric.MeterProvider) {
	meterProviders.Store(serviceName, provider)
}

// GetMeterProvider is the service's provider, or the process' own.
func GetMeterProvider(serviceName string) metric.MeterProvider {
	if provider, ok := meterProviders.Load(serviceName); ok {
		return provider.(metric.MeterProvider)
	}
	return otel.GetMeterProvider()
}
