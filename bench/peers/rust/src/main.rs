// SPDX-License-Identifier: MIT

//! The driver of rslock: reads requests, answers each with a line of JSON (see ../../README.md).

use rslock::{Lock, LockManager};
use std::collections::HashMap;
use std::future::Future;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

const LEASE: Duration = Duration::from_secs(30);

/// CLOCK_MONOTONIC itself: std::time::Instant has it too, but does not tell it.
fn now() -> i64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: ts is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec * 1_000_000_000 + ts.tv_nsec
}

fn open(url: &str) -> LockManager {
    LockManager::new(vec![url.to_string()])
}

/// It loops until it has the lock; between its tries it sleeps up to 200 ms, its default.
async fn take(client: &LockManager, name: &str) -> Lock {
    match client.acquire_no_guard(name, LEASE).await {
        Ok(lock) => lock,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

struct Request {
    word: String,
    values: HashMap<String, String>,
}

impl Request {
    fn parse(line: &str) -> Request {
        let mut words = line.split_whitespace();
        let word = words.next().unwrap_or("").to_string();
        let values = words
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        Request { word, values }
    }

    fn text(&self, key: &str, fallback: &str) -> String {
        self.values.get(key).map_or(fallback, |value| value).to_string()
    }

    fn number(&self, key: &str, fallback: i64) -> i64 {
        self.values.get(key).map_or(fallback, |value| value.parse().expect("a number"))
    }
}

fn list(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

async fn pause(us: i64) {
    if us > 0 {
        tokio::time::sleep(Duration::from_micros(us as u64)).await;
    }
}

struct Driver {
    url: String,
    clients: Vec<Arc<LockManager>>,
    held: Vec<Lock>,
}

impl Driver {
    fn client(&mut self, i: usize) -> Arc<LockManager> {
        while self.clients.len() <= i {
            self.clients.push(Arc::new(open(&self.url)));
        }
        self.clients[i].clone()
    }

    async fn pair(&mut self, request: &Request) -> String {
        let (client, name) = (self.client(0), request.text("name", "pair"));
        let end = now() + request.number("ms", 60000) * 1_000_000;
        let mut took = Vec::new();
        while (took.len() as i64) < request.number("n", 1000) && now() < end {
            let start = now();
            let lock = take(&client, &name).await;
            client.unlock(&lock).await;
            took.push(now() - start);
        }
        format!("{{\"ns\":[{}]}}", list(&took))
    }

    async fn threads(&mut self, request: &Request) -> String {
        let n = request.number("threads", 1) as usize;
        let start = Arc::new(Barrier::new(n + 1));
        let stop = Arc::new(AtomicBool::new(false));
        let pairs = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..n)
            .map(|i| {
                let (client, start, stop, pairs) = (self.client(0), start.clone(), stop.clone(), pairs.clone());
                let name = format!("{}/{}", request.text("name", "threads"), i);
                tokio::spawn(async move {
                    let lock = take(&client, &name).await;
                    client.unlock(&lock).await;
                    start.wait().await;
                    while !stop.load(Ordering::Relaxed) {
                        let lock = take(&client, &name).await;
                        client.unlock(&lock).await;
                        pairs.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        start.wait().await;
        let began = now();
        tokio::time::sleep(Duration::from_millis(request.number("ms", 1000) as u64)).await;
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await.expect("a task ends");
        }
        format!("{{\"pairs\":{},\"ns\":{}}}", pairs.load(Ordering::Relaxed), now() - began)
    }

    async fn contend(&mut self, request: &Request) -> String {
        let tasks: Vec<_> = (0..request.number("clients", 1) as usize)
            .map(|i| tokio::spawn(contend_alone(self.client(i), request)))
            .collect();
        let mut found = Vec::new();
        for task in tasks {
            found.push(task.await.expect("a task ends"));
        }
        format!("{{\"contenders\":[{}]}}", found.join(","))
    }

    async fn hold(&mut self, request: &Request) -> String {
        let (client, n) = (self.client(0), request.number("n", 1));
        for i in 0..n {
            let name = format!("{}/{}", request.text("name", "hold"), i);
            self.held.push(take(&client, &name).await);
        }
        format!("{{\"held\":{n}}}")
    }

    async fn drop_held(&mut self) -> String {
        let client = self.client(0);
        for lock in self.held.drain(..) {
            client.unlock(&lock).await;
        }
        "{}".to_string()
    }

    async fn answer(&mut self, request: &Request) -> String {
        if request.text("mode", "write") != "write" {
            return "{\"unsupported\":true}".to_string();
        }
        match request.word.as_str() {
            "pair" => self.pair(request).await,
            "threads" => self.threads(request).await,
            "contend" => self.contend(request).await,
            "hold" => self.hold(request).await,
            "drop" => self.drop_held().await,
            _ => "{\"unsupported\":true}".to_string(),
        }
    }
}

fn contend_alone(client: Arc<LockManager>, request: &Request) -> impl Future<Output = String> {
    let (n, name) = (request.number("n", 100), request.text("name", "contend"));
    let (hold_us, gap_us) = (request.number("hold_us", 0), request.number("gap_us", 0));
    let (at, limit) = (request.number("at", now()), request.number("limit_ms", 10000) * 1_000_000);
    async move {
        let mut turns = Vec::new();
        pause((at - now()) / 1000).await;
        while (turns.len() as i64) < 3 * n && now() - at < limit {
            let asked = now() - at;
            let lock = take(&client, &name).await;
            let got = now() - at;
            pause(hold_us).await;
            turns.extend([asked, got, now() - at]);
            client.unlock(&lock).await;
            pause(gap_us).await;
        }
        format!("{{\"finish\":{},\"turns\":[{}]}}", now() - at, list(&turns))
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let url = arguments
        .iter()
        .position(|word| word == "--url")
        .and_then(|at| arguments.get(at + 1))
        .expect("--url URL");
    let mut driver = Driver { url: url.clone(), clients: Vec::new(), held: Vec::new() };
    let client = driver.client(0);
    let lock = take(&client, "bench/open").await;
    client.unlock(&lock).await;
    let mut out = std::io::stdout();
    let version = option_env!("RSLOCK_VERSION").unwrap_or("unknown");
    writeln!(out, "{{\"version\":\"{version}, tokio\"}}").expect("standard output");
    for line in std::io::stdin().lock().lines() {
        let request = Request::parse(&line.expect("standard input"));
        let answer = driver.answer(&request).await;
        writeln!(out, "{answer}").expect("standard output");
    }
}
