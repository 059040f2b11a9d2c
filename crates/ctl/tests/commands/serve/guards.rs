//! Tests of the guard: which requests are answered, and what strangers learn.

use redrive_support::TestAccount;

use super::{ServerReply, serving};
use crate::overrides::has_document;

/// The form of an action, which the server accepts from its own pages.
const FORM: [(&str, &str); 3] = [("do", "hold"), ("topic", "payments"), ("why", "down")];

#[tokio::test]
async fn without_the_token_there_is_nothing() {
    let cloud = TestAccount::new();
    serving(&cloud, &["--operate"], async |client| {
        let host = client.host();
        let get = async |path: &str| client.send("GET", path, &[("Host", &host)], "").await;
        assert_eq!(get("/TOKEN/").await.status, 200);
        let mut answers = Vec::new();
        let almost = format!("/{}/", &client.token[1..]);
        for path in ["/", "/groups", &almost, "/TOKENx/", "/x/TOKEN/", "/act?do=hold&topic=payments"] {
            let ServerReply { status, head, body } = get(path).await;
            assert_eq!(status, 404, "{path}");
            // All refusals are alike, apart from the date.
            let head: Vec<_> =
                head.lines().filter(|line| !line.starts_with("date:")).map(str::to_owned).collect();
            answers.push((head, body));
        }
        answers.dedup();
        assert_eq!(answers.len(), 1);
        assert!(!answers[0].1.contains("redrive"), "{}", answers[0].1);
        // Without the slash at the end, relative links would lead elsewhere.
        let bare = get("/TOKEN").await;
        assert_eq!((bare.status, bare.header("location").unwrap().ends_with('/')), (303, true));
        let icon = get("/favicon.ico").await;
        assert_eq!((icon.status, icon.body.as_str()), (204, ""));
    })
    .await;
}

#[tokio::test]
async fn a_page_that_has_its_name_point_here_gets_nothing() {
    let cloud = TestAccount::new();
    serving(&cloud, &["--operate"], async |client| {
        let evil = format!("evil.example:{}", client.port);
        for host in [&evil, "evil.example", "127.0.0.1"] {
            let reply = client.send("GET", "/TOKEN/", &[("Host", host)], "").await;
            assert_eq!(reply.status, 421, "{host}");
            let origin = format!("http://{host}");
            let page = "/TOKEN/act?do=hold&topic=payments";
            let reply = client.send("POST", page, &[("Host", host), ("Origin", &origin)], "why=down").await;
            assert_eq!(reply.status, 421, "{host}");
        }
        // No preview was even prepared, so there is nothing to confirm.
        assert!(client.get("jobs").await.text().contains("Nothing was done in this session."));
        let local = format!("localhost:{}", client.port);
        assert_eq!(client.send("GET", "/TOKEN/", &[("Host", &local)], "").await.status, 200);
    })
    .await;
    assert!(!has_document(&cloud));
}

#[tokio::test]
async fn other_pages_do_not_act_with_the_token_even() {
    let cloud = TestAccount::new();
    serving(&cloud, &["--operate"], async |client| {
        let (host, origin) = (client.host(), client.origin());
        let (form, query) = super::parted(&FORM);
        let (form, page) = (super::encoded(&form), format!("/TOKEN/act?{}", super::encoded(&query)));
        let other_port = format!("http://127.0.0.1:{}", client.port ^ 1);
        for headers in [
            &[][..],
            &[("Origin", "null")],
            &[("Origin", "http://evil.example")],
            &[("Origin", other_port.as_str())],
            &[("Origin", origin.as_str()), ("Sec-Fetch-Site", "same-site")],
            &[("Origin", origin.as_str()), ("Sec-Fetch-Site", "cross-site")],
        ] {
            let headers = [&[("Host", host.as_str())], headers].concat();
            let reply = client.send("POST", &page, &headers, &form).await;
            assert_eq!(reply.status, 403, "{headers:?}");
        }
        // The server does not even prepare a preview for another site's page.
        assert!(client.get("jobs").await.text().contains("Nothing was done in this session."));
        // Another site's page cannot confirm an action either.
        let (_, page) = client.begin(&FORM).await;
        let (id, nonce) = (page.hidden("id").unwrap(), page.hidden("nonce").unwrap());
        let confirm = [("id", id.as_str()), ("do", "confirm"), ("nonce", &nonce)];
        assert_eq!(client.post_from("http://evil.example", "job", &confirm).await.status, 403);
        assert!(!has_document(&cloud));
        assert!(client.confirm(&page).await.1.text().contains("It is done."));
    })
    .await;
}

#[tokio::test]
async fn every_answer_tells_the_browser_what_to_leave() {
    let cloud = TestAccount::new();
    serving(&cloud, &["--operate"], async |client| {
        let (_, asks) = client.begin(&FORM).await;
        let pages = [
            (client.get("").await, "no-referrer"),
            (client.get("nothing").await, "no-referrer"),
            (client.send("GET", "/", &[("Host", &client.host())], "").await, "no-referrer"),
            (client.send("GET", "/TOKEN/", &[("Host", "evil")], "").await, "no-referrer"),
            // With `no-referrer`, a browser would send `Origin: null` with a form.
            (client.get("act?do=hold&topic=payments").await, "same-origin"),
            (asks, "same-origin"),
        ];
        for (page, referrer) in &pages {
            let has =
                |name: &str, value: &str| assert_eq!(page.header(name), Some(value), "{name}: {}", page.head);
            has("referrer-policy", referrer);
            has("x-content-type-options", "nosniff");
            has("x-frame-options", "DENY");
            has("cross-origin-resource-policy", "same-origin");
            has("cross-origin-opener-policy", "same-origin");
            has("cache-control", "no-store");
            for none in ["set-cookie", "access-control-allow-origin", "server"] {
                assert_eq!(page.header(none), None, "{none}");
            }
            let policy = page.header("content-security-policy").unwrap();
            for directive in
                ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"]
            {
                assert!(policy.split("; ").any(|it| it == directive), "{directive}: {policy}");
            }
            assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{policy}");
            // No page holds the token, so it is not in saved or forwarded pages.
            assert!(!page.body.contains(&client.token));
            for meta in ["<script", "style=", "onclick", "name=\"referrer\""] {
                assert!(!page.body.contains(meta), "{meta}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_one_style_is_the_one_that_the_policy_allows() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};
    let cloud = TestAccount::new();
    serving(&cloud, &[], async |client| {
        let page = client.get("").await;
        let (_, style) = page.body.split_once("<style>").unwrap();
        let style = style.split_once("</style>").unwrap().0;
        let hash = STANDARD.encode(Sha256::digest(style));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains(&format!("style-src 'sha256-{hash}'")), "{policy}");
        assert_eq!(page.body.matches("<style").count(), 1);
    })
    .await;
}

#[tokio::test]
async fn without_operate_it_only_shows() {
    let cloud = TestAccount::new();
    serving(&cloud, &[], async |client| {
        for reply in [
            client.get("act?do=hold&topic=payments").await,
            client.get("jobs").await,
            client.get("job?id=1").await,
            client.act(&FORM).await,
            client.post("job", &[("id", "1"), ("do", "confirm")]).await,
        ] {
            assert_eq!(reply.status, 403);
            assert!(reply.text().contains("start it with --operate"), "{}", reply.text());
        }
        assert_eq!(client.post("groups", &[]).await.status, 403);
    })
    .await;
    assert_eq!(cloud.calls("PutObject").len(), 0);
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let cloud = TestAccount::new();
    serving(&cloud, &["--operate"], async |client| {
        assert_eq!(client.get("nothing").await.status, 404);
        assert_eq!(client.get("groups?color=red").await.status, 404);
        assert_eq!(client.get("job?id=7").await.status, 404);
        assert_eq!(client.get("act?do=burn").await.status, 400);
        assert_eq!(client.post("groups", &[]).await.status, 404);
        let reply = client.send("PUT", "/TOKEN/act", &[("Host", &client.host())], "").await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, POST")));
    })
    .await;
}
