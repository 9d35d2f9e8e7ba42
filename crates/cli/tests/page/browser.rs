//! A headless Chromium, driven by its own protocol over pipes.
//!
//! `--remote-debugging-pipe` has Chromium read requests on descriptor 3 and write answers on 4,
//! each JSON with a zero byte after it. So a test needs no port, no WebSocket and no driver beside
//! the browser; crates that speak the whole protocol are larger than all that is tested here.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest time that an answer, or something on the page, is waited for.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time between two looks at the page.
const LOOK: Duration = Duration::from_millis(100);
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Returns the place of Chromium.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn find() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("MILLPOND_CHROMIUM") {
        return Ok(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let files = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = files.into_iter().find(|file| file.is_file());
    found.ok_or_else(|| "there is no chromium in PATH, and MILLPOND_CHROMIUM is not set.".to_owned())
}

/// A browser with one tab. Dropping it kills it.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    /// Events: messages besides answers.
    events: VecDeque<Value>,
    last: u64,
    session: Option<String>,
    _folder: TempDir,
}

impl Browser {
    pub(crate) fn start(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = Command::new("sh")
            // The pipes of the shell become descriptors 3 and 4 of the browser.
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"])
            .arg(program)
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a browser");
        let input = child.stdin.take().expect("its input");
        let output = child.stdout.take().expect("its output");
        let (sender, messages) = channel();
        base::thread::spawn("browser", move || listen(output, &sender)).expect("a thread");
        let mut browser =
            Self { child, input, messages, events: VecDeque::new(), last: 0, session: None, _folder: folder };
        let tab = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attached =
            browser.ask("Target.attachToTarget", json!({"targetId": tab["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(1180, 900);
        browser
    }

    /// Sends a request and returns the answer.
    pub(crate) fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        let mut bytes = request.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("the browser reads");
        loop {
            let message = self.messages.recv_timeout(PATIENCE).expect("the browser answers");
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push_back(message);
        }
    }

    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    pub(crate) fn open(&mut self, url: &str) {
        let answer = self.ask("Page.navigate", json!({"url": url}));
        assert!(answer["errorText"].is_null(), "{url}: {answer}");
    }

    /// Has pages read these figures, by path, rather than those of their server. A page has them as
    /// `figures`, where they can be changed.
    pub(crate) fn fake(&mut self, figures: &Value) {
        let source = format!(
            "window.figures = {figures};
             window.fetch = async path => {{
                 const found = figures[path] ?? figures[path.split('?')[0]];
                 if (found == null) return new Response('There is none.', {{ status: 404 }});
                 return new Response(JSON.stringify(found));
             }};"
        );
        self.ask("Page.addScriptToEvaluateOnNewDocument", json!({"source": source}));
    }

    /// Has pages be shown in this colour scheme.
    pub(crate) fn theme(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Returns the value of an expression of JavaScript.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    pub(crate) fn text(&mut self, expression: &str) -> String {
        match self.value(expression) {
            Value::String(text) => text,
            other => panic!("{expression} is {other}"),
        }
    }

    /// Waits until an expression is true. One about an element that is not there yet is not.
    pub(crate) fn wait(&mut self, what: &str, expression: &str) {
        let expression =
            format!("(() => {{ try {{ return !!({expression}); }} catch {{ return false; }} }})()");
        for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
            if self.value(&expression) == true {
                return;
            }
            base::thread::sleep(LOOK);
        }
        let shown = self.value("document.body.innerText");
        panic!("{what} is not seen; the page has: {shown}; problems: {:?}", self.problems());
    }

    /// Presses a key, as a person would.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let mut parameters =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if key == "Enter" && kind == "keyDown" {
                parameters["text"] = json!("\r");
            }
            self.ask("Input.dispatchKeyEvent", parameters);
        }
    }

    /// Writes a picture of the whole page to a folder, if `MILLPOND_SCREENSHOTS` names one.
    pub(crate) fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("MILLPOND_SCREENSHOTS") else { return };
        // The page is at least as high as the window.
        self.resize(1180, 400);
        let height = self.value("document.documentElement.scrollHeight").as_u64().unwrap_or(900);
        self.resize(1180, u32::try_from(height).unwrap_or(900).clamp(400, 1_400));
        let picture = self.ask("Page.captureScreenshot", json!({"format": "png"}));
        let bytes = decoded(picture["data"].as_str().unwrap_or_default());
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).expect("a picture");
    }

    /// Returns what a person would find in the console: errors, warnings and exceptions.
    pub(crate) fn problems(&self) -> Vec<String> {
        let is_problem = |event: &&Value| {
            let (method, parameters) = (event["method"].as_str().unwrap_or_default(), &event["params"]);
            match method {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => {
                    parameters["type"] == "error" || parameters["type"] == "warning"
                }
                "Log.entryAdded" => parameters["entry"]["level"] == "error",
                _ => false,
            }
        };
        self.events.iter().filter(is_problem).map(Value::to_string).collect()
    }

    /// Returns the addresses that were asked for.
    pub(crate) fn requests(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| Some(event["params"]["request"]["url"].as_str()?.to_owned())).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes on what the browser says until it ends.
fn listen(output: ChildStdout, messages: &Sender<Value>) {
    for message in BufReader::new(output).split(0) {
        let Ok(message) = message else { return };
        let Ok(message) = serde_json::from_slice(&message) else { continue };
        if messages.send(message).is_err() {
            return;
        }
    }
}

/// Decodes Base64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text
        .bytes()
        .filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte))
        .map(|n| n as u32)
        .collect();
    let of_four = |four: &[u32]| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(of_four).collect()
}

#[test]
fn base64_is_decoded_with_and_without_a_rest() {
    assert_eq!(decoded("TWlsbHBvbmQ="), b"Millpond");
    assert_eq!(decoded("cG9uZA=="), b"pond");
    assert_eq!(decoded("TWls"), b"Mil");
}
