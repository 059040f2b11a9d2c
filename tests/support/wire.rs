//! Reads HTTP/1.1 as a server.

use std::io::{BufRead, Read};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A request as it came over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Raw {
    /// The request line, such as `POST / HTTP/1.1`.
    pub(super) line: String,
    /// The headers in their order, with names in lower case.
    pub(super) headers: Vec<(String, String)>,
    /// The body, without its chunks.
    pub(super) body: Vec<u8>,
}

impl Raw {
    /// Returns the first header of this name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// Reads the next request, or returns `None` at the end of the connection. It calls `go_on` when the client
/// waits for a reply before it sends the body.
pub(super) fn read<S: BufRead>(stream: &mut S, go_on: impl FnOnce(&mut S)) -> Option<Raw> {
    let line = read_line(stream)?;
    let mut headers = Vec::new();
    loop {
        let header = read_line(stream)?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap();
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut raw = Raw { line, headers, body: Vec::new() };
    if raw.header("expect").is_some() {
        go_on(stream);
    }
    if raw.header("transfer-encoding").is_some_and(|it| it.contains("chunked")) {
        loop {
            let size = usize::from_str_radix(&read_line(stream)?, 16).unwrap();
            read_bytes(stream, size, &mut raw.body)?;
            read_line(stream)?;
            if size == 0 {
                return Some(raw);
            }
        }
    }
    let length = raw.header("content-length").map_or(0, |length| length.parse().unwrap());
    read_bytes(stream, length, &mut raw.body)?;
    Some(raw)
}

/// Returns a server's configuration for TLS. The chain and the key are PEM.
pub(super) fn tls(chain: &str, key: &str) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key);
    Arc::new(config.unwrap())
}

fn read_line(stream: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    Some(line.trim_end().to_owned())
}

fn read_bytes(stream: &mut impl Read, count: usize, into: &mut Vec<u8>) -> Option<()> {
    let read = stream.take(u64::try_from(count).unwrap()).read_to_end(into).ok()?;
    (read == count).then_some(())
}
