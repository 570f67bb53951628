// cadvisor's collection as the kubelet embeds it: a housekeeping of each cgroup every ten seconds, figures for Prometheus.
// What the agent is compared with; needs nothing but a cgroup tree.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/google/cadvisor/cache/memory"
	"github.com/google/cadvisor/container"
	info "github.com/google/cadvisor/info/v1"
	v2 "github.com/google/cadvisor/info/v2"
	"github.com/google/cadvisor/manager"
	"github.com/google/cadvisor/metrics"
	"github.com/google/cadvisor/utils/sysfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"
)

func main() {
	interval, dynamic := 15*time.Second, true
	included := container.MetricSet{
		container.CpuUsageMetrics:     struct{}{},
		container.MemoryUsageMetrics:  struct{}{},
		container.CpuLoadMetrics:      struct{}{},
		container.DiskIOMetrics:       struct{}{},
		container.NetworkUsageMetrics: struct{}{},
		container.AppMetrics:          struct{}{},
		container.ProcessMetrics:      struct{}{},
		container.OOMMetrics:          struct{}{},
	}
	every := manager.HousekeepingConfig{Interval: &interval, AllowDynamic: &dynamic}
	cgroups := []string{"/kubepods.slice"}
	m, err := manager.New(memory.New(2*time.Minute, nil), sysfs.NewRealSysFs(), every, included, http.DefaultClient, cgroups, nil, "", 0)
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Start(); err != nil {
		log.Fatal(err)
	}
	labels := func(c *info.ContainerInfo) map[string]string { return map[string]string{"id": c.Name} }
	options := v2.RequestOptions{IdType: v2.TypeName, Count: 1, Recursive: true}
	prometheus.MustRegister(metrics.NewPrometheusCollector(m, labels, included, clock.RealClock{}, options))
	http.Handle("/metrics", promhttp.Handler())
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}
