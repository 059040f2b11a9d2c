//! `serve`: the console on the operator's machine, over a real socket, with a client that can send anything.

mod actions;
mod guards;
mod letters;
mod limits;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use aws_config::SdkConfig;
use redrive_support::TestAccount;
use redrive_support::stand_in::{self, StandInRequest};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::doctor::ill_deployment;
use super::stack::{OUTPUTS, formation};
use super::{CapturedOutput, CommandRun, CommandWorld, manual, redrivectl, redrivectl_in};

/// A browser's tab. It sends whatever the test wants.
pub(crate) struct BrowserTab {
    pub(crate) port: u16,
    pub(crate) token: String,
    /// The milliseconds by which the server's clock jumps.
    pub(crate) skipped: Arc<AtomicI64>,
}

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct ServerReply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl ServerReply {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Returns the text of the page, without tags.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for part in self.body.split('<') {
            text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
            text.push(' ');
        }
        let text =
            text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the value of a hidden field; `None` if the page has no such field.
    pub(crate) fn hidden(&self, name: &str) -> Option<String> {
        let (_, rest) = self.body.split_once(&format!("name=\"{name}\" value=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    }
}

impl BrowserTab {
    /// Sends bytes, and reads until the server closes.
    pub(crate) async fn raw(&self, request: &[u8]) -> ServerReply {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        // A server that refuses early may not read the whole request.
        let _ = stream.write_all(request).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        ServerReply { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Sends a request with these headers. `TOKEN` in the path stands for the token.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> ServerReply {
        let path = path.replace("TOKEN", &self.token);
        let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let headers = headers.collect::<Vec<_>>().concat();
        let length = body.len();
        let request = format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
        self.raw(request.as_bytes()).await
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Opens a page below the token, as the browser does.
    pub(crate) async fn get(&self, page: &str) -> ServerReply {
        let headers = [("Host", self.host()), ("Sec-Fetch-Site", "same-origin".to_owned())];
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.send("GET", &format!("/TOKEN/{page}"), &headers, "").await
    }

    /// Sends a form as a page of the server does.
    pub(crate) async fn post(&self, page: &str, form: &[(&str, &str)]) -> ServerReply {
        self.post_from(&self.origin(), page, form).await
    }

    /// Sends a form as a page of this origin does.
    pub(crate) async fn post_from(&self, origin: &str, page: &str, form: &[(&str, &str)]) -> ServerReply {
        let host = self.host();
        let kind = "application/x-www-form-urlencoded";
        let headers = [("Host", host.as_str()), ("Origin", origin), ("Content-Type", kind)];
        self.send("POST", &format!("/TOKEN/{page}"), &headers, &encoded(form)).await
    }

    /// Sends the form of an action, and opens its page when the action waits for the operator or has ended.
    pub(crate) async fn begin(&self, form: &[(&str, &str)]) -> (String, ServerReply) {
        let reply = self.act(form).await;
        self.follow(reply).await
    }

    /// Sends the form of an action. The fields that select its object go into the address.
    pub(crate) async fn act(&self, form: &[(&str, &str)]) -> ServerReply {
        let (form, query) = parted(form);
        self.post(&format!("act?{}", encoded(&query)), &form).await
    }

    /// Confirms the action on a page.
    pub(crate) async fn confirm(&self, page: &ServerReply) -> (String, ServerReply) {
        let (id, nonce) = (page.hidden("id").unwrap(), page.hidden("nonce").unwrap());
        let reply = self.post("job", &[("id", &id), ("do", "confirm"), ("nonce", &nonce)]).await;
        self.follow(reply).await
    }

    async fn follow(&self, reply: ServerReply) -> (String, ServerReply) {
        assert_eq!(reply.status, 303, "{}", reply.text());
        let to = reply.header("location").unwrap().to_owned();
        let page = self.settled(&to).await;
        (to, page)
    }

    /// Opens a page again until it no longer loads by itself.
    pub(crate) async fn settled(&self, page: &str) -> ServerReply {
        loop {
            let reply = self.get(page).await;
            if reply.header("refresh").is_none() {
                return reply;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The fields of a form that a person fills in.
const FILLED_IN: [&str; 7] = ["why", "for", "match", "rate", "ramp", "threshold", "settle"];

type FormPairs<'t> = Vec<(&'t str, &'t str)>;

/// Separates the fields that a person fills in from those in the address.
pub(crate) fn parted<'t>(form: &[(&'t str, &'t str)]) -> (FormPairs<'t>, FormPairs<'t>) {
    form.iter().partition(|(name, _)| FILLED_IN.contains(name))
}

/// Returns a form as browsers encode it.
pub(crate) fn encoded(form: &[(&str, &str)]) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let text = |text: &str| text.bytes().map(byte).collect::<String>();
    form.iter().map(|(name, value)| format!("{}={}", text(name), text(value))).collect::<Vec<_>>().join("&")
}

/// Serves the stack `payments` with these options during the test, and ends as with Ctrl-C.
pub(crate) async fn serving(
    cloud: &TestAccount,
    options: &[&str],
    test: impl AsyncFnOnce(&BrowserTab),
) -> CommandRun {
    let config = stand_in::before(cloud, |asked: &StandInRequest<'_>| {
        // There is no state machine, so this process replays.
        let no_machine = || json!({ "__type": "StateMachineDoesNotExist", "message": "none" }).to_string();
        if asked.is_of("states") { Some((400, no_machine())) } else { formation(asked, &OUTPUTS) }
    });
    serving_with(config, options, test).await
}

/// Does the same behind another stand-in.
pub(crate) async fn serving_with(
    config: SdkConfig,
    options: &[&str],
    test: impl AsyncFnOnce(&BrowserTab),
) -> CommandRun {
    let (printed, skipped) = (CapturedOutput::default(), Arc::new(AtomicI64::new(0)));
    let interrupted = Arc::new(AtomicBool::new(false));
    let world = CommandWorld {
        config: Some(config),
        ticks: true,
        printed: printed.clone(),
        skipped: Arc::clone(&skipped),
        interrupted: Arc::clone(&interrupted),
        ..CommandWorld::default()
    };
    let args = [&["serve", "--stack", "payments", "--json"], options].concat();
    let tested = async {
        let url = loop {
            if let Ok(said) = serde_json::from_str::<Value>(&printed.text()) {
                break said["url"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let (port, token) = url.strip_prefix("http://127.0.0.1:").unwrap().split_once('/').unwrap();
        let token = token.strip_suffix('/').unwrap().to_owned();
        test(&BrowserTab { port: port.parse().unwrap(), token, skipped }).await;
        interrupted.store(true, Ordering::Relaxed);
    };
    tokio::join!(redrivectl_in(world, &args), tested).0
}

#[tokio::test]
async fn it_says_where_to_open_it_and_ends_with_ctrl_c() {
    let cloud = TestAccount::new();
    let ran = serving(&cloud, &[], async |client| {
        let page = client.get("").await;
        assert_eq!(page.status, 200);
        assert!(page.body.contains("<!DOCTYPE html>"), "{}", page.body);
    })
    .await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(said["operates"], false);
}

#[tokio::test]
async fn it_needs_a_stack_and_a_port_that_is_free() {
    let cloud = TestAccount::new();
    let ran = redrivectl_in(CommandWorld::on(&cloud), &["serve"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!(ran.err, "redrivectl: which stack? Give --stack NAME (or REDRIVE_STACK)\n");
    serving(&cloud, &[], async |client| {
        let config = Some(stand_in::before(&cloud, |asked: &StandInRequest<'_>| formation(asked, &OUTPUTS)));
        let port = client.port.to_string();
        let args = ["serve", "--stack", "payments", "--port", &port];
        let ran = redrivectl_in(CommandWorld { config, ..CommandWorld::default() }, &args).await;
        assert_eq!((ran.code, ran.out.as_str()), (1, ""));
        assert!(
            ran.err.starts_with(&format!("redrivectl: cannot listen on 127.0.0.1:{port}: ")),
            "{}",
            ran.err
        );
    })
    .await;
}

#[tokio::test]
async fn it_listens_on_loopback_only() {
    let cloud = TestAccount::new();
    serving(&cloud, &[], async |client| {
        // A server on every address would answer at this one too.
        assert!(TcpStream::connect(("127.0.0.2", client.port)).await.is_err());
        assert!(TcpStream::connect(("127.0.0.1", client.port)).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn the_manual_names_every_option_and_exit_code() {
    let manual = manual();
    let section =
        |name: &str| manual.split_once(&format!("\n## {name}\n")).unwrap().1.split_once("\n## ").unwrap().0;
    let help = redrivectl(&["serve", "--help"]).await.text();
    let (options, codes) = help.split_once("Exit codes:\n").unwrap();
    let own = options.split_once("\nOptions:").unwrap().1.split_once("\nAWS:").unwrap().0;
    // All commands have these.
    let is_own = |word: &&str| word.starts_with("--") && !["--help", "--wide"].contains(word);
    let names = own.split_whitespace().filter(is_own);
    let names: std::collections::BTreeSet<_> = names.map(|word| word.trim_end_matches([',', '.'])).collect();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        assert!(section("serve").contains(&format!("`{name}")), "{name}");
    }
    for line in codes.lines() {
        let (code, _) = line.trim().split_once("  ").unwrap();
        let row =
            section("Common to all").lines().find(|row| row.starts_with(&format!("| {code} | "))).unwrap();
        assert!(code != "4" || row.contains("`serve`: "), "{row}");
    }
}

#[tokio::test]
async fn the_page_now_shows_what_the_doctor_finds_and_asks_it_every_ten_minutes() {
    let (cloud, config) = ill_deployment();
    serving_with(config, &[], async |client| {
        let asked = || cloud.calls("GetQueueAttributes").len();
        assert_eq!(asked(), 0, "nobody has looked yet");
        let found = async {
            while !client.get("now").await.text().contains("It lacks ReportBatchItemFailures") {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), found).await.unwrap();
        let once = asked();
        assert!(once > 0);
        for _ in 0..5 {
            client.get("now").await;
        }
        assert_eq!(asked(), once);
        client.skipped.store(11 * 60_000, Ordering::Relaxed);
        client.get("now").await;
        let again = async {
            while asked() == once {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), again).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_page_now_says_that_the_doctor_looks_and_why_it_could_not() {
    // The stack does not name its function.
    serving(&TestAccount::new(), &[], async |client| {
        let first = client.get("now").await.text();
        assert!(first.contains("Looking; reload the page"), "{first}");
        let said = async {
            loop {
                let text = client.get("now").await.text();
                if !text.contains("Looking; reload the page") {
                    break text;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let said = tokio::time::timeout(Duration::from_secs(20), said).await.unwrap();
        assert!(
            said.contains("The doctor could not look: the stack payments has no output FunctionName"),
            "{said}"
        );
    })
    .await;
}
