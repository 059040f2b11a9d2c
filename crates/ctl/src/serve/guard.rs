//! The guard: decides which requests the server answers.
//!
//! The server listens on loopback. Every program on this machine and every page in its browser can reach it
//! there. So a request must pass three checks. It must know the token in the address that the operator
//! opened. It must name this machine as its host: after DNS rebinding, another site's page would name its own
//! host. And if the browser says which page sent the request, that must be one of ours: otherwise another
//! site could forge requests (CSRF).

use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, Uri};

use super::secret::Secret;

/// The header with the relation between the page that asks and this server.
/// <https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Sec-Fetch-Site>
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The header that says whether the browser asks for a whole page.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The header that says what the browser will do with the answer.
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Decides which requests are answered.
#[derive(Debug)]
pub(super) struct ServeGuard {
    port: u16,
    token: Secret,
}

/// The reason for refusing a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuardRefusal {
    /// The request names another host.
    Host,
    /// The request has a wrong token or an unknown path.
    Unknown,
    /// The request is neither GET nor POST.
    Method,
    /// The request comes from a page of another site.
    Origin,
}

/// The target of an admitted request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AdmittedTarget<'a> {
    /// The icon. Browsers ask for it at a fixed path without the token. It is no secret.
    Icon,
    /// The address without the slash at its end. Relative links would lead to the wrong place from there.
    Bare,
    /// A path below the token.
    Path(&'a str),
}

impl ServeGuard {
    pub(super) fn new(port: u16, token: Secret) -> Self {
        Self { port, token }
    }

    /// Returns the address to open.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token.text())
    }

    /// Decides about a request by its head.
    pub(super) fn admit<'a>(
        &self,
        method: &Method,
        uri: &'a Uri,
        headers: &HeaderMap,
    ) -> Result<AdmittedTarget<'a>, GuardRefusal> {
        let names_us = |host: &str| self.hosts().iter().any(|ours| host.eq_ignore_ascii_case(ours));
        // A request line may be an absolute URL, with a host of its own. Browsers do not send that to a
        // server, only to a proxy.
        if uri.authority().is_some() || !only(headers, &HOST).is_some_and(names_us) {
            return Err(GuardRefusal::Host);
        }
        let path = uri.path().strip_prefix('/').ok_or(GuardRefusal::Unknown)?;
        let (first, rest) = path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
        // The token is checked before the method and the origin, so that a stranger learns nothing from them.
        let knows = self.token.is(first);
        let admitted = match rest {
            _ if path == "favicon.ico" => AdmittedTarget::Icon,
            Some(rest) if knows => AdmittedTarget::Path(rest),
            None if knows => AdmittedTarget::Bare,
            _ => return Err(GuardRefusal::Unknown),
        };
        if method != Method::GET && method != Method::POST {
            return Err(GuardRefusal::Method);
        }
        let posts = method == Method::POST;
        check_origin(posts, headers)?;
        check_site(posts, headers)?;
        Ok(admitted)
    }

    fn hosts(&self) -> Vec<String> {
        let names = ["127.0.0.1", "localhost"];
        let mut hosts = names.map(|host| format!("{host}:{}", self.port)).to_vec();
        if self.port == 80 {
            // Browsers omit port 80, the default of HTTP.
            hosts.extend(names.map(str::to_owned));
        }
        hosts
    }
}

/// Refuses requests from another origin, and requests that change something without naming an origin.
fn check_origin(posts: bool, headers: &HeaderMap) -> Result<(), GuardRefusal> {
    if !headers.contains_key(ORIGIN) {
        return if posts { Err(GuardRefusal::Origin) } else { Ok(()) };
    }
    // `localhost` and `127.0.0.1` are different origins, so the origin must match the host of this request.
    let host = only(headers, &HOST).unwrap_or_default();
    let is_ours =
        |origin: &str| origin.strip_prefix("http://").is_some_and(|origin| origin.eq_ignore_ascii_case(host));
    if only(headers, &ORIGIN).is_some_and(is_ours) { Ok(()) } else { Err(GuardRefusal::Origin) }
}

/// Refuses requests from another site's page, if the browser says so. Another site may link here, but may not
/// embed a page as an image or in a frame.
fn check_site(posts: bool, headers: &HeaderMap) -> Result<(), GuardRefusal> {
    if !headers.contains_key(FETCH_SITE) {
        return Ok(());
    }
    let is = |name: &HeaderName, value: &str| only(headers, name) == Some(value);
    let is_followed = is(&FETCH_MODE, "navigate") && is(&FETCH_DEST, "document");
    let is_ours = is(&FETCH_SITE, "same-origin");
    let may = is_ours || (!posts && (is(&FETCH_SITE, "none") || is_followed));
    if may { Ok(()) } else { Err(GuardRefusal::Origin) }
}

/// Returns the value of a header that occurs exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> ServeGuard {
        ServeGuard::new(8080, Secret::new().unwrap())
    }

    /// Decides about a request with these headers. `TOKEN` in the path stands for the token.
    fn admits(
        guard: &ServeGuard,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<String, GuardRefusal> {
        let uri: Uri = path.replace("TOKEN", guard.token.text()).parse().unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let method: Method = method.parse().unwrap();
        guard.admit(&method, &uri, &map).map(|admitted| format!("{admitted:?}"))
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:8080");
    const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:8080");

    #[test]
    fn a_page_is_for_who_knows_the_token() {
        let guard = guard();
        let get = |path: &str| admits(&guard, "GET", path, &[HOST]);
        assert_eq!(get("/TOKEN/"), Ok("Path(\"\")".to_owned()));
        assert_eq!(get("/TOKEN/groups?by=error"), Ok("Path(\"groups\")".to_owned()));
        assert_eq!(get("/TOKEN"), Ok("Bare".to_owned()));
        assert_eq!(get("/favicon.ico"), Ok("Icon".to_owned()));
        for path in ["/", "/groups", "/TOKENx/", "//TOKEN/", "/favicon.ico/", "/x/TOKEN/", "*"] {
            assert_eq!(get(path), Err(GuardRefusal::Unknown), "{path}");
        }
    }

    #[test]
    fn the_host_must_be_this_machine() {
        let guard = guard();
        let host = |host: &[(&str, &str)]| admits(&guard, "GET", "/TOKEN/", host).is_ok();
        assert!(host(&[HOST]) && host(&[("host", "localhost:8080")]) && host(&[("host", "LOCALHOST:8080")]));
        for (name, value) in
            [("x", "y"), ("host", "evil.example:8080"), ("host", "127.0.0.1"), ("host", "127.0.0.1:80")]
        {
            assert!(!host(&[(name, value)]), "{name}: {value}");
        }
        assert!(!host(&[HOST, HOST]), "two of them");
        assert_eq!(admits(&guard, "GET", "http://evil.example/TOKEN/", &[HOST]), Err(GuardRefusal::Host));
    }

    #[test]
    fn the_port_of_http_is_left_out_by_browsers() {
        let guard = ServeGuard::new(80, Secret::new().unwrap());
        let origin = ("origin", "http://127.0.0.1");
        for (host, admitted) in
            [("127.0.0.1", true), ("127.0.0.1:80", false), ("localhost", false), ("evil", false)]
        {
            let asked = admits(&guard, "POST", "/TOKEN/act", &[("host", host), origin]);
            assert_eq!(asked.is_ok(), admitted, "{host}");
            let read = admits(&guard, "GET", "/TOKEN/", &[("host", host)]);
            assert_eq!(read.is_ok(), host != "evil", "{host}");
        }
    }

    #[test]
    fn only_our_own_pages_may_act() {
        let guard = guard();
        let asks = |method: &str, headers: &[(&str, &str)]| {
            admits(&guard, method, "/TOKEN/act", &[&[HOST], headers].concat()).err()
        };
        assert_eq!(asks("POST", &[ORIGIN]), None);
        assert_eq!(asks("POST", &[ORIGIN, ("sec-fetch-site", "same-origin")]), None);
        assert_eq!(asks("POST", &[]), Some(GuardRefusal::Origin), "it must say where it comes from");
        for origin in ["null", "http://evil.example", "http://127.0.0.1:8081", "https://127.0.0.1:8080", ""] {
            for method in ["GET", "POST"] {
                assert_eq!(
                    asks(method, &[("origin", origin)]),
                    Some(GuardRefusal::Origin),
                    "{method} {origin}"
                );
            }
        }
        // `localhost` is another origin.
        assert_eq!(asks("POST", &[("origin", "http://localhost:8080")]), Some(GuardRefusal::Origin));
        assert_eq!(asks("POST", &[ORIGIN, ORIGIN]), Some(GuardRefusal::Origin));
        for site in ["cross-site", "same-site", "none"] {
            assert_eq!(
                asks("POST", &[ORIGIN, ("sec-fetch-site", site)]),
                Some(GuardRefusal::Origin),
                "{site}"
            );
        }
        for method in ["HEAD", "OPTIONS", "PUT", "DELETE"] {
            assert_eq!(asks(method, &[ORIGIN]), Some(GuardRefusal::Method));
        }
    }

    #[test]
    fn a_link_is_followed_and_not_put_into_other_pages() {
        let guard = guard();
        let get = |site: &str, mode: &str, dest: &str| {
            let headers =
                [HOST, ("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            admits(&guard, "GET", "/TOKEN/", &headers).is_ok()
        };
        assert!(get("none", "navigate", "document") && get("same-origin", "no-cors", "image"));
        assert!(get("cross-site", "navigate", "document"));
        for (mode, dest) in [("no-cors", "image"), ("navigate", "iframe"), ("cors", "empty")] {
            assert!(!get("cross-site", mode, dest) && !get("same-site", mode, dest), "{mode} {dest}");
        }
    }
}
