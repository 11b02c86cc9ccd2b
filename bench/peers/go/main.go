// SPDX-License-Identifier: MIT

// The driver of the Go peers: reads requests, answers each with a line of JSON (see ../README.md). A peer is a
// function that opens a client; the workloads are written once over it.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// client takes a name and returns what gives it back.
type client interface {
	take(name string) (func(), error)
}

type opener func(url string) (client, error)

var peers = map[string]struct {
	module string
	open   opener
}{
	"rueidislock": {"github.com/redis/rueidis", openRueidislock},
	"redsync":     {"github.com/go-redsync/redsync/v4", openRedsync},
	"redislock":   {"github.com/bsm/redislock", openRedislock},
	"etcd":        {"go.etcd.io/etcd/client/v3", openEtcd},
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// now is CLOCK_MONOTONIC itself: time.Now has it too, but does not tell it.
func now() int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

type request map[string]string

func (r request) text(key, fallback string) string {
	if value, ok := r[key]; ok {
		return value
	}
	return fallback
}

func (r request) number(key string, fallback int64) int64 {
	if value, ok := r[key]; ok {
		number, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			fail(err)
		}
		return number
	}
	return fallback
}

type driver struct {
	open    opener
	url     string
	clients []client
	held    []func()
}

func (d *driver) client(i int) client {
	for len(d.clients) <= i {
		c, err := d.open(d.url)
		if err != nil {
			fail(err)
		}
		d.clients = append(d.clients, c)
	}
	return d.clients[i]
}

func take(c client, name string) func() {
	give, err := c.take(name)
	if err != nil {
		fail(err)
	}
	return give
}

func (d *driver) pair(r request) any {
	c, name := d.client(0), r.text("name", "pair")
	n, end := r.number("n", 1000), now()+r.number("ms", 60000)*1e6
	took := []int64{}
	for int64(len(took)) < n && now() < end {
		start := now()
		take(c, name)()
		took = append(took, now()-start)
	}
	return map[string]any{"ns": took}
}

func (d *driver) threads(r request) any {
	c, n := d.client(0), int(r.number("threads", 1))
	var stop atomic.Bool
	var pairs atomic.Int64
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	done.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			defer done.Done()
			name := fmt.Sprintf("%s/%d", r.text("name", "threads"), i)
			take(c, name)()
			ready.Done()
			<-start
			count := int64(0)
			for !stop.Load() {
				take(c, name)()
				count++
			}
			pairs.Add(count)
		}()
	}
	ready.Wait()
	began := now()
	close(start)
	time.Sleep(time.Duration(r.number("ms", 1000)) * time.Millisecond)
	stop.Store(true)
	done.Wait()
	return map[string]any{"pairs": pairs.Load(), "ns": now() - began}
}

type contender struct {
	Finish int64   `json:"finish"`
	Turns  []int64 `json:"turns"`
}

func (r request) contend(c client) contender {
	n, name := r.number("n", 100), r.text("name", "contend")
	hold := time.Duration(r.number("hold_us", 0)) * time.Microsecond
	gap := time.Duration(r.number("gap_us", 0)) * time.Microsecond
	at, limit := r.number("at", now()), r.number("limit_ms", 10000)*1e6
	turns := make([]int64, 0, 3*n)
	time.Sleep(time.Duration(at - now()))
	for ; n > 0 && now()-at < limit; n-- {
		asked := now() - at
		give := take(c, name)
		got := now() - at
		if hold > 0 {
			time.Sleep(hold)
		}
		turns = append(turns, asked, got, now()-at)
		give()
		if gap > 0 {
			time.Sleep(gap)
		}
	}
	return contender{now() - at, turns}
}

func (d *driver) contend(r request) any {
	n := int(r.number("clients", 1))
	contenders := make([]contender, n)
	var done sync.WaitGroup
	for i := 0; i < n; i++ {
		c := d.client(i)
		done.Add(1)
		go func() {
			defer done.Done()
			contenders[i] = r.contend(c)
		}()
	}
	done.Wait()
	return map[string]any{"contenders": contenders}
}

func (d *driver) hold(r request) any {
	const fillers = 32
	c, n := d.client(0), int(r.number("n", 1))
	held := make([]func(), n)
	var done sync.WaitGroup
	for filler := 0; filler < fillers; filler++ {
		done.Add(1)
		go func() {
			defer done.Done()
			for i := filler; i < n; i += fillers {
				held[i] = take(c, fmt.Sprintf("%s/%d", r.text("name", "hold"), i))
			}
		}()
	}
	done.Wait()
	d.held = held
	return map[string]any{"held": n}
}

func (d *driver) drop(request) any {
	for _, give := range d.held {
		give()
	}
	d.held = nil
	return map[string]any{}
}

func (d *driver) answer(line string) any {
	words := strings.Fields(line)
	r := request{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		r[key] = value
	}
	handlers := map[string]func(request) any{"pair": d.pair, "threads": d.threads, "contend": d.contend,
		"hold": d.hold, "drop": d.drop}
	handler, ok := handlers[words[0]]
	if !ok || (r.text("mode", "write") != "write") {
		return map[string]any{"unsupported": true}
	}
	return handler(r)
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return strings.TrimPrefix(dependency.Version, "v") + ", " + info.GoVersion
		}
	}
	return "unknown"
}

func main() {
	name := flag.String("peer", "", "whom to drive")
	url := flag.String("url", "", "where the server is")
	flag.Int("clients", 1, "most clients that will be asked for")
	flag.Parse()
	peer, ok := peers[*name]
	if !ok {
		fail(fmt.Errorf("there is no peer %q", *name))
	}
	d := &driver{open: peer.open, url: *url}
	d.client(0)
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]any{"version": version(peer.module)}); err != nil {
		fail(err)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := out.Encode(d.answer(in.Text())); err != nil {
			fail(err)
		}
	}
}
