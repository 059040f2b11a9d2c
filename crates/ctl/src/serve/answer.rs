//! Answers, with headers that restrict the browser.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    LOCATION, REFERRER_POLICY, REFRESH, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use redrive_console::STYLE;
use sha2::{Digest, Sha256};

use super::guard::GuardRefusal;

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// An answer to the browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServeAnswer {
    pub(super) status: StatusCode,
    kind: AnswerBody,
    /// The seconds after which the browser loads the page again.
    again: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AnswerBody {
    Page {
        html: String,
        /// True if the page has a form.
        has_form: bool,
    },
    Text(String),
    To(String),
    Nothing,
}

impl ServeAnswer {
    /// Returns a page without a form.
    pub(super) fn page(html: String) -> Self {
        Self::of(StatusCode::OK, AnswerBody::Page { html, has_form: false })
    }

    /// Returns a page with a form. A browser that must not send a `Referer` sends `Origin: null` with a form.
    /// So pages with a form allow the `Referer` for this server, and for no other.
    /// <https://fetch.spec.whatwg.org/#append-a-request-origin-header>
    pub(super) fn form(html: String) -> Self {
        Self::of(StatusCode::OK, AnswerBody::Page { html, has_form: true })
    }

    /// Sends the browser to another page of the console, with a GET.
    pub(super) fn to(address: impl Into<String>) -> Self {
        Self::of(StatusCode::SEE_OTHER, AnswerBody::To(address.into()))
    }

    pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self::of(status, AnswerBody::Text(text.into()))
    }

    pub(super) fn nothing() -> Self {
        Self::of(StatusCode::NO_CONTENT, AnswerBody::Nothing)
    }

    /// Refuses a request. A wrong token and an unknown path look the same, so nobody can test tokens by their
    /// answers.
    pub(super) fn refused(refusal: GuardRefusal) -> Self {
        let (status, text) = match refusal {
            GuardRefusal::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "This server answers to 127.0.0.1 and localhost with its port.",
            ),
            GuardRefusal::Unknown => (StatusCode::NOT_FOUND, "Not found."),
            GuardRefusal::Method => (StatusCode::METHOD_NOT_ALLOWED, "Only GET and POST are allowed."),
            GuardRefusal::Origin => (StatusCode::FORBIDDEN, "Only pages of this server may ask for that."),
        };
        Self::text(status, text)
    }

    pub(super) fn with(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Makes the browser load the page again after some seconds.
    pub(super) fn again_after(self, seconds: u32) -> Self {
        Self { again: Some(seconds), ..self }
    }

    fn of(status: StatusCode, kind: AnswerBody) -> Self {
        Self { status, kind, again: None }
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let (content_type, body, has_form, location) = match self.kind {
            AnswerBody::Page { html, has_form } => ("text/html; charset=utf-8", html, has_form, None),
            AnswerBody::Text(text) => ("text/plain; charset=utf-8", text + "\n", false, None),
            AnswerBody::To(address) => ("text/plain; charset=utf-8", String::new(), false, Some(address)),
            AnswerBody::Nothing => ("text/plain; charset=utf-8", String::new(), false, None),
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        let referrer = if has_form { "same-origin" } else { "no-referrer" };
        for (name, value) in [
            (CONTENT_TYPE, content_type),
            (CACHE_CONTROL, "no-store"),
            (REFERRER_POLICY, referrer),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (RESOURCE_POLICY, "same-origin"),
            (OPENER_POLICY, "same-origin"),
            // A connection serves one request, so nobody can hold one open.
            (CONNECTION, "close"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let given = [
            (CONTENT_SECURITY_POLICY, Some(policy())),
            (LOCATION, location),
            (REFRESH, self.again.map(|seconds| seconds.to_string())),
            (ALLOW, (self.status == StatusCode::METHOD_NOT_ALLOWED).then(|| "GET, POST".to_owned())),
        ];
        for (name, value) in given {
            if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// Returns the policy of every page: no script, only our own style, nothing from other sites, and no frame
/// around it. The icon counts as an image.
fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri \
         'none'"
    )
}
