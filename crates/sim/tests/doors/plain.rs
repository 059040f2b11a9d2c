//! A plain client of SQS, SNS and S3: makes a request of an operation and its parameters, and reads the answer.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use redrive_sim::{REGION, WireRequest, WireResponse};
use serde_json::{Map, Value, json};

/// The operations of SNS.
const SNS: [&str; 3] = ["Publish", "PublishBatch", "GetSubscriptionAttributes"];

/// The operations of S3.
const S3: [&str; 3] = ["PutObject", "GetObject", "ListObjectsV2"];

/// The elements of XML that are lists, however many there are.
const LISTS: [&str; 2] = ["Contents", "CommonPrefixes"];

/// An answer: its status, its content, and the code of an error with its text.
pub(super) struct PlainAnswer {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) error: Option<(String, String)>,
}

/// Returns the request of an operation. The parameter `trace` is a header.
pub(super) fn request(operation: &str, parameters: &Value) -> WireRequest {
    let text = |name: &str| parameters[name].as_str();
    let mut request = if SNS.contains(&operation) {
        of_sns(operation, parameters)
    } else if S3.contains(&operation) {
        of_s3(operation, parameters)
    } else {
        let mut body = parameters.clone();
        body.as_object_mut().unwrap().remove("trace");
        let headers = vec![
            ("content-type".to_owned(), "application/x-amz-json-1.0".to_owned()),
            ("x-amz-target".to_owned(), format!("AmazonSQS.{operation}")),
        ];
        let uri = format!("https://sqs.{REGION}.amazonaws.com/");
        WireRequest { method: "POST".to_owned(), uri, headers, body: body.to_string().into_bytes() }
    };
    request.headers.extend(text("trace").map(|trace| ("x-amzn-trace-id".to_owned(), trace.to_owned())));
    request
}

fn of_sns(operation: &str, parameters: &Value) -> WireRequest {
    let mut form = vec![("Action".to_owned(), operation.to_owned())];
    for (name, value) in parameters.as_object().unwrap() {
        match value {
            Value::Array(entries) => {
                for (number, entry) in (1..).zip(entries) {
                    fields(&mut form, &format!("{name}.member.{number}."), entry);
                }
            }
            _ => fields(&mut form, "", &json!({ name: value })),
        }
    }
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let form: Vec<_> =
        form.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    let headers = vec![("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned())];
    let uri = format!("https://sns.{REGION}.amazonaws.com/");
    WireRequest { method: "POST".to_owned(), uri, headers, body: form.join("&").into_bytes() }
}

/// Adds the fields of a message or an entry to a form.
fn fields(form: &mut Vec<(String, String)>, prefix: &str, of: &Value) {
    for (name, value) in of.as_object().unwrap() {
        let Value::Object(attributes) = value else {
            form.push((format!("{prefix}{name}"), text(value)));
            continue;
        };
        for (number, (attribute, value)) in (1..).zip(attributes) {
            let prefix = format!("{prefix}{name}.entry.{number}.");
            form.push((format!("{prefix}Name"), attribute.clone()));
            fields(form, &format!("{prefix}Value."), value);
        }
    }
}

fn of_s3(operation: &str, parameters: &Value) -> WireRequest {
    let of = |name: &str| parameters[name].as_str().unwrap_or_default();
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut uri = format!("https://s3.{REGION}.amazonaws.com/{}", of("Bucket"));
    if operation == "ListObjectsV2" {
        uri += "?list-type=2";
        for (name, parameter) in [
            ("prefix", "Prefix"),
            ("delimiter", "Delimiter"),
            ("max-keys", "MaxKeys"),
            ("start-after", "StartAfter"),
            ("continuation-token", "ContinuationToken"),
        ] {
            if let Some(value) = parameters.get(parameter) {
                uri.extend(["&", name, "=", &encoded(&text(value))]);
            }
        }
    } else {
        uri.extend(["/", &encoded(of("Key"))]);
    }
    let conditions = [("if-match", "IfMatch"), ("if-none-match", "IfNoneMatch")];
    let header = |(name, parameter): (&str, &str)| {
        Some((name.to_owned(), parameters.get(parameter)?.as_str()?.to_owned()))
    };
    let headers = conditions.into_iter().filter_map(header).collect();
    let method = if operation == "PutObject" { "PUT" } else { "GET" }.to_owned();
    WireRequest { method, uri, headers, body: of("Body").as_bytes().to_vec() }
}

/// Reads the answer to an operation.
pub(super) fn answer(operation: &str, response: &WireResponse) -> PlainAnswer {
    let header = |name: &str| {
        let found = response.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.clone())
    };
    let (status, content) = (response.status, String::from_utf8_lossy(&response.body).into_owned());
    let is_object = operation == "GetObject" && status == 200;
    let mut body = if is_object {
        json!({ "Body": content })
    } else if content.starts_with('{') {
        serde_json::from_str(&content).unwrap()
    } else {
        element(&content)
    };
    if S3.contains(&operation)
        && let (Some(tag), Some(body)) = (header("etag"), body.as_object_mut())
    {
        body.insert("ETag".to_owned(), tag.into());
    }
    let error = (status >= 300).then(|| {
        if let Some(code) = header("x-amzn-query-error") {
            let code = code.split(';').next().unwrap_or_default().to_owned();
            (code, body["message"].as_str().unwrap_or_default().to_owned())
        } else {
            let error = body.pointer("/ErrorResponse/Error").or(body.get("Error"));
            let of = |name: &str| error.and_then(|it| it[name].as_str()).map(str::to_owned);
            (of("Code").unwrap_or_else(|| status.to_string()), of("Message").unwrap_or_default())
        }
    });
    // Answers of SNS and S3 lie in one or two elements.
    for name in [format!("{operation}Response"), format!("{operation}Result"), "ListBucketResult".to_owned()]
    {
        if let Some(inner) = body.get_mut(&name) {
            body = inner.take();
        }
    }
    PlainAnswer { status, body, error }
}

/// Reads XML whose elements have no element of their own name in them: `member` as lists, `entry` as pairs.
fn element(xml: &str) -> Value {
    let (mut object, mut list, mut rest) = (Map::new(), Vec::new(), xml);
    let mut is_list = false;
    while let Some((_, tag)) = rest.split_once('<') {
        let Some((tag, inner)) = tag.split_once('>') else { break };
        let name = tag.split(' ').next().unwrap_or_default();
        let Some((content, after)) = inner.split_once(&format!("</{name}>")) else { break };
        rest = after;
        let value = if content.contains('<') { element(content) } else { Value::String(unescaped(content)) };
        match name {
            "member" => {
                is_list = true;
                list.push(value);
            }
            "entry" => {
                object.insert(text(&value["key"]), value["value"].clone());
            }
            _ if LISTS.contains(&name) => {
                let all = object.entry(name).or_insert_with(|| json!([]));
                all.as_array_mut().unwrap().push(value);
            }
            _ => {
                object.insert(name.to_owned(), value);
            }
        }
    }
    if is_list { Value::Array(list) } else { Value::Object(object) }
}

fn unescaped(text: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#xD;", "\r"), ("&amp;", "&")]
        .into_iter()
        .fold(text.to_owned(), |text, (escape, sign)| text.replace(escape, sign))
}

/// Returns text as it is, and anything else as JSON has it.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
