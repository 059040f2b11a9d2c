//! The smallest possible HTTP client, which makes a connection for each request.

use std::io::{Read, Write};
use std::net::TcpStream;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;

#[derive(Debug, Clone)]
pub(super) struct WireClient;

impl HttpClient for WireClient {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for WireClient {
    fn call(&self, mut request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(async move {
            let body = ByteStream::new(request.take_body()).collect().await.unwrap().to_vec();
            let (_, rest) = request.uri().split_once("://").unwrap();
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let mut head = format!("{} /{path} HTTP/1.1\r\nhost: {host}\r\n", request.method());
            for (name, value) in request.headers().iter().filter(|(name, _)| *name != "content-length") {
                head.extend([name, ": ", value, "\r\n"]);
            }
            head.extend(["content-length: ", &body.len().to_string(), "\r\n\r\n"]);
            let mut stream = TcpStream::connect(host).unwrap();
            stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
            let head = std::str::from_utf8(&answer[..end]).unwrap();
            let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
            let body = SdkBody::from(answer[end + 4..].to_vec());
            let mut response = HttpResponse::new(status.try_into().unwrap(), body);
            for (name, value) in head.lines().skip(1).filter_map(|line| line.split_once(": ")) {
                response.headers_mut().insert(name.to_owned(), value.to_owned());
            }
            Ok(response)
        })
    }
}
