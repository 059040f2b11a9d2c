//! S3: REST, with the bucket in the path or in the host's name.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use crc::{CRC_32_ISO_HDLC, Crc};
use jiff::Timestamp;

use super::http::{WireRequest, WireResponse, unknown};
use super::text::{decoded, element, escaped, form};
use crate::call::SimCall;
use crate::call_context::SimContext;
use crate::clock::{SimMillis, iso};
use crate::error::Error;
use crate::s3::{PutCondition, SimListRequest, VersionRequest};
use crate::services::Services;
use crate::world::{host_of, path_of};

/// The header that deletes a version in spite of its lock.
const BYPASS: &str = "x-amz-bypass-governance-retention";

/// The beginning of the headers with metadata.
const METADATA: &str = "x-amz-meta-";

pub(super) fn decode(call: &mut SimCall, request: &WireRequest) -> Result<(), Error> {
    let (path, query) = path_of(&request.uri).split_once('?').unwrap_or((path_of(&request.uri), ""));
    let path = decoded(path.trim_start_matches('/'));
    call.parameters = form(query);
    let host = host_of(&request.uri);
    let bucket = host.split_once(".s3.").map(|(bucket, _)| bucket);
    call.target = match bucket {
        Some(bucket) => format!("{bucket}/{path}"),
        None => path,
    };
    for (name, value) in &request.headers {
        let is_kept = ["if-none-match", "if-match", "content-type", BYPASS].contains(&name.as_str());
        if is_kept || name.starts_with(METADATA) {
            call.parameters.insert(name.clone(), value.clone());
        }
    }
    let is_versions = call.parameters.contains_key("versions");
    let is_list = call.parameters.contains_key("list-type");
    let is_lifecycle = call.parameters.contains_key("lifecycle");
    let operation = match request.method.as_str() {
        "GET" if is_list => "ListObjectsV2",
        "GET" if is_versions => "ListObjectVersions",
        "GET" if is_lifecycle => "GetBucketLifecycleConfiguration",
        "DELETE" => "DeleteObject",
        "GET" => "GetObject",
        "PUT" => "PutObject",
        other => other,
    };
    operation.clone_into(&mut call.operation);
    if is_list || is_versions {
        let bucket = call.target.trim_end_matches('/').to_owned();
        call.target = format!("{bucket}/{}", call.parameter("prefix").unwrap_or_default());
    }
    let is_chunked = request.header("content-encoding").is_some_and(|it| it.contains("aws-chunked"));
    let (body, trailers) =
        if is_chunked { unchunked(&request.body)? } else { (request.body.clone(), String::new()) };
    call.body = body;
    let trailer = trailers.lines().find_map(|line| line.strip_prefix("x-amz-checksum-crc32:"));
    check(&call.body, request.header("x-amz-checksum-crc32").or(trailer.map(str::trim)))
}

/// Compares a body with the checksum that came with it, if one did.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html>
fn check(body: &[u8], checksum: Option<&str>) -> Result<(), Error> {
    static CRC32: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
    let own = STANDARD.encode(CRC32.checksum(body).to_be_bytes());
    if checksum.is_some_and(|checksum| checksum != own) {
        return Err(Error::bad(
            "BadDigest",
            "The CRC32 you specified did not match the calculated checksum.",
        ));
    }
    Ok(())
}

/// Takes the chunks of a streamed upload apart: `<hex size>[;extension]\r\n<bytes>\r\n` ... and trailers at the end. Returns
/// the bytes, and the trailers.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html>
fn unchunked(mut body: &[u8]) -> Result<(Vec<u8>, String), Error> {
    let broken = || Error::bad("IncompleteBody", "The request body terminated unexpectedly");
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").ok_or_else(broken)?;
        let head = std::str::from_utf8(&body[..end]).map_err(|_| broken())?;
        let size = usize::from_str_radix(head.split(';').next().unwrap_or_default(), 16);
        let size = size.map_err(|_| broken())?;
        if size == 0 {
            return Ok((whole, String::from_utf8_lossy(&body[end..]).into_owned()));
        }
        whole.extend_from_slice(body.get(end + 2..end + 2 + size).ok_or_else(broken)?);
        body = body.get(end + size + 4..).ok_or_else(broken)?;
    }
}

/// Carries out a call. Every answer contains S3's time, even that to a refused call.
pub(super) fn carry_out(services: &mut Services, cx: &mut SimContext<'_>, call: &SimCall) -> WireResponse {
    let now = cx.now;
    answer(services, cx, call).unwrap_or_else(|error| refuse(&error)).with("date", &http_date(now))
}

fn answer(services: &mut Services, cx: &mut SimContext<'_>, call: &SimCall) -> Result<WireResponse, Error> {
    let place = call.target.split_once('/').unwrap_or((&call.target, ""));
    match call.operation.as_str() {
        "PutObject" => {
            let condition = match (call.parameter("if-none-match"), call.parameter("if-match")) {
                (Some("*"), None) => PutCondition::Absent,
                (None, Some(tag)) if tag != "*" => PutCondition::Tag(tag),
                (None, None) => PutCondition::None,
                // A condition that makes no sense for a write.
                _ => {
                    let message = "A header you provided implies functionality that is not implemented";
                    return Err(Error::new(501, "NotImplemented", message));
                }
            };
            let kind = call.parameter("content-type");
            let etag = services.s3.put_object(cx, place, call.body.clone(), condition, kind)?;
            let given = call.parameters.iter();
            let metadata = given.filter_map(|(name, value)| Some((name.strip_prefix(METADATA)?, value)));
            let metadata = metadata.map(|(name, value)| (name.to_owned(), value.clone())).collect();
            services.s3.describe(place, metadata);
            let response = WireResponse::new(200, "").with("etag", &etag);
            let version = services.s3.get_object(place, None)?.version.clone();
            Ok(with_version(response, &version))
        }
        "GetObject" => {
            let object = match call.parameter("versionId") {
                Some(version) => services.s3.get_version(place, version)?,
                None => services.s3.get_object(place, call.parameter("if-none-match"))?,
            };
            let kind = object.content_type.as_deref().unwrap_or("binary/octet-stream");
            let mut response = WireResponse::new(200, object.bytes.clone())
                .with("etag", &object.etag)
                .with("last-modified", &http_date(object.modified))
                .with("content-type", kind);
            for (name, value) in &object.metadata {
                response = response.with(&format!("{METADATA}{name}"), value);
            }
            if let Some(lock) = &object.lock {
                response = response.with("x-amz-object-lock-mode", &lock.mode);
                response = response.with("x-amz-object-lock-retain-until-date", &iso(lock.until));
            }
            Ok(with_version(response, &object.version))
        }
        "DeleteObject" => {
            let bypass = call.parameter(BYPASS) == Some("true");
            services.s3.delete_object(place, call.parameter("versionId"), bypass, cx.now)?;
            Ok(WireResponse::new(204, ""))
        }
        "ListObjectVersions" => list_versions(services, call, place),
        "GetBucketLifecycleConfiguration" => lifecycle(services, place.0),
        "ListObjectsV2" => list(services, call, place),
        _ => Err(unknown(call)),
    }
}

fn lifecycle(services: &Services, bucket: &str) -> Result<WireResponse, Error> {
    let rules = services.s3.expirations(bucket.trim_end_matches('/'))?.iter().map(|(prefix, days)| {
        let filter = format!("<Filter>{}</Filter>", element("Prefix", prefix));
        let expiration = format!("<Expiration>{}</Expiration>", element("Days", &days.to_string()));
        ["<Rule>", &element("Status", "Enabled"), &filter, &expiration, "</Rule>"].concat()
    });
    let rules: String = rules.collect();
    if rules.is_empty() {
        let message = "The lifecycle configuration does not exist";
        return Err(Error::new(404, "NoSuchLifecycleConfiguration", message));
    }
    let text = format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>");
    Ok(WireResponse::new(200, text).with("content-type", "application/xml"))
}

/// Adds the version's id, which a bucket without versions does not have.
fn with_version(response: WireResponse, version: &str) -> WireResponse {
    if version == "null" { response } else { response.with("x-amz-version-id", version) }
}

fn list_versions(
    services: &Services,
    call: &SimCall,
    (bucket, prefix): (&str, &str),
) -> Result<WireResponse, Error> {
    let list = VersionRequest {
        prefix,
        after: call
            .parameter("key-marker")
            .map(|key| (key, call.parameter("version-id-marker").unwrap_or_default())),
        max_keys: call.parameter("max-keys").and_then(|it| it.parse().ok()),
    };
    let (page, more) = services.s3.list_versions(bucket, list)?;
    let mut text = String::new();
    for version in &page {
        let shared = [
            element("Key", &version.key),
            element("VersionId", &version.id),
            element("IsLatest", &version.is_latest.to_string()),
            element("LastModified", &iso(version.modified / 1000 * 1000)),
        ];
        let (name, own) = match &version.object {
            Some((etag, size)) => ("Version", element("ETag", etag) + &element("Size", &size.to_string())),
            None => ("DeleteMarker", String::new()),
        };
        text.extend(["<", name, ">", &shared.concat(), &own, "</", name, ">"]);
    }
    if let (true, Some(last)) = (more, page.last()) {
        text += &element("NextKeyMarker", &last.key);
        text += &element("NextVersionIdMarker", &last.id);
    }
    let body = format!(
        "<ListVersionsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{}{}<IsTruncated>{more}</IsTruncated>{text}\
         </ListVersionsResult>",
        element("Name", bucket),
        element("Prefix", prefix),
    );
    Ok(WireResponse::new(200, body).with("content-type", "application/xml"))
}

fn list(services: &Services, call: &SimCall, (bucket, prefix): (&str, &str)) -> Result<WireResponse, Error> {
    let token = match call.parameter("continuation-token") {
        None => None,
        Some(token) => Some(
            URL_SAFE_NO_PAD
                .decode(token)
                .ok()
                .filter(|bytes| !bytes.is_empty())
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| {
                    Error::bad("InvalidArgument", "The continuation token provided is incorrect")
                })?,
        ),
    };
    let page = services.s3.list_objects(
        bucket,
        SimListRequest {
            prefix,
            delimiter: call.parameter("delimiter").filter(|it| !it.is_empty()),
            after: token.as_deref().or(call.parameter("start-after")),
            max_keys: call.parameter("max-keys").and_then(|it| it.parse().ok()),
        },
    )?;
    let mut text = String::new();
    for (key, object) in &page.objects {
        // Listings show whole seconds.
        let modified = iso(object.modified / 1000 * 1000);
        text.extend([
            "<Contents>",
            &element("Key", key),
            &element("LastModified", &modified),
            &element("ETag", &object.etag),
            &element("Size", &object.size.to_string()),
            "<StorageClass>STANDARD</StorageClass></Contents>",
        ]);
    }
    for prefix in &page.prefixes {
        text.extend(["<CommonPrefixes>", &element("Prefix", prefix), "</CommonPrefixes>"]);
    }
    if let Some(last) = &page.next {
        text += &element("NextContinuationToken", &URL_SAFE_NO_PAD.encode(last));
    }
    let body = format!(
        "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{}{}<KeyCount>{}</KeyCount>\
         <IsTruncated>{}</IsTruncated>{text}</ListBucketResult>",
        element("Name", bucket),
        element("Prefix", prefix),
        page.objects.len() + page.prefixes.len(),
        page.next.is_some()
    );
    Ok(WireResponse::new(200, body).with("content-type", "application/xml"))
}

pub(super) fn refuse(error: &Error) -> WireResponse {
    if error.status == 304 {
        return WireResponse::new(304, "");
    }
    let body = format!(
        "<Error><Code>{}</Code><Message>{}</Message><RequestId>0000000000000000</RequestId></Error>",
        error.code,
        escaped(&error.message)
    );
    WireResponse::new(error.status, body).with("content-type", "application/xml")
}

fn http_date(millis: SimMillis) -> String {
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
