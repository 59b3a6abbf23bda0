//! A headless Chromium, driven over pipes by its DevTools protocol: real rendering, real key events, and the messages
//! of its console.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time without a message after which the browser is stopped.
const PATIENCE: Duration = Duration::from_secs(120);

/// The Chromium of `CHROMIUM`, or the first of the usual names in `PATH`.
pub(crate) fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).flat_map(|dir| names.map(|n| dir.join(n))).find(|p| p.is_file())
}

/// One page of a browser.
pub(crate) struct Browser {
    child: Arc<Mutex<Child>>,
    to: File,
    from: BufReader<File>,
    next: u64,
    session: Option<String>,
    /// Events received since the page was opened.
    pub(crate) events: Vec<Value>,
    _dir: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser without network access.
    pub(crate) fn start(program: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (to, from) = (dir.path().join("to"), dir.path().join("from"));
        assert!(Command::new("mkfifo").args([&to, &from]).status().unwrap().success());
        let profile = dir.path().join("profile");
        // The protocol uses the file descriptors 3 and 4.
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$TO\" 4>\"$FROM\""])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-quic", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .env("TO", &to)
            .env("FROM", &from)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let child = Arc::new(Mutex::new(child));
        let watched = Arc::clone(&child);
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            watched.lock().unwrap().kill().ok();
        });
        let to = OpenOptions::new().write(true).open(&to).unwrap();
        let from = BufReader::new(File::open(&from).unwrap());
        let mut browser = Self { child, to, from, next: 0, session: None, events: Vec::new(), _dir: dir };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = target["targetId"].as_str().unwrap().to_owned();
        let own = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = own["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method and waits for its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// Calls a method and waits for its answer, which may be an error.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(b"\0").unwrap();
        loop {
            let answer = self.read();
            if answer["id"] == json!(self.next) {
                return answer;
            }
            self.events.push(answer);
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser went away, or was stopped after {PATIENCE:?}");
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Opens a file at a width and waits until it is loaded.
    pub(crate) fn open(&mut self, file: &Path, width: u32) {
        self.open_url(&format!("file://{}", file.display()), width);
    }

    /// Opens an address at a width and waits until it is loaded.
    pub(crate) fn open_url(&mut self, url: &str, width: u32) {
        self.events.clear();
        self.size(width);
        self.call("Page.navigate", json!({ "url": url }));
        while !self.events.iter().any(|e| e["method"] == "Page.loadEventFired") {
            let event = self.read();
            self.events.push(event);
        }
    }

    /// Sets the width of the window in pixels.
    pub(crate) fn size(&mut self, width: u32) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Emulates the preferred colour scheme and the medium.
    pub(crate) fn media(&mut self, scheme: &str, media: &str) {
        let scheme = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "media": media, "features": scheme }));
    }

    /// Returns the value of an expression, awaiting it if it is a promise.
    pub(crate) fn eval(&mut self, code: &str) -> Value {
        let asked = json!({ "expression": code, "returnByValue": true, "awaitPromise": true });
        let said = self.call("Runtime.evaluate", asked);
        assert!(said["exceptionDetails"].is_null(), "{code}: {}", said["exceptionDetails"]);
        said["result"]["value"].clone()
    }

    /// Returns true if an expression is true; false too while the browser goes to another page.
    pub(crate) fn holds(&mut self, code: &str) -> bool {
        let asked = json!({ "expression": code, "returnByValue": true });
        self.ask("Runtime.evaluate", asked)["result"]["result"]["value"] == json!(true)
    }

    /// Presses a key and lets it go.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Moves the pointer.
    pub(crate) fn point(&mut self, x: f64, y: f64) {
        self.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y }));
    }

    /// Returns the exceptions and errors that the browser reported, and all requests for the network.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let wrong = |e: &&Value| {
            let p = &e["params"];
            match e["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => p["type"] == "error" || p["type"] == "warning",
                "Log.entryAdded" => p["entry"]["level"] == "error" || p["entry"]["level"] == "warning",
                "Network.requestWillBeSent" => {
                    let url = p["request"]["url"].as_str().unwrap_or_default();
                    !url.starts_with("file:") && !url.starts_with("data:")
                }
                _ => false,
            }
        };
        self.events.iter().filter(wrong).map(Value::to_string).collect()
    }

    /// Prints the page as PDF.
    pub(crate) fn print(&mut self) -> Vec<u8> {
        let page =
            self.call("Page.printToPDF", json!({ "preferCSSPageSize": true, "printBackground": true }));
        STANDARD.decode(page["data"].as_str().unwrap()).unwrap()
    }

    /// Takes a screenshot of the whole page as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let page = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        STANDARD.decode(page["data"].as_str().unwrap()).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        child.kill().ok();
        child.wait().ok();
    }
}
