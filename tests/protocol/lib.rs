//! What SNS, SQS, S3, Lambda and Firehose read in a request and say in an answer, for everything that
//! stands in for them.

#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "only tests and proofs use it"
)]

pub mod wire;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// One request as the service read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// `PublishBatch`, `PutObject` ...
    pub op: String,
    /// The host it was sent to.
    pub host: String,
    /// The name of the queue, topic, stream or function, the ARN of the subscription, the token of the
    /// page, or `bucket/key`.
    pub to: String,
    /// The entries of a batch request; the event of an `Invoke`.
    pub entries: Vec<Entry>,
    /// The headers of a `PutObject`, an `Invoke` or a `PublishBatch` that mean something.
    pub headers: BTreeMap<String, String>,
    /// The body of a `PutObject`.
    pub object: String,
    /// The entries that were taken, by position; [0] stands for a whole object.
    pub taken: Vec<usize>,
}

/// One entry of a batch request. Attributes are `(type, value)`, bytes as `base64 ...`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    pub body: String,
    pub subject: Option<String>,
    pub attributes: BTreeMap<String, (String, String)>,
    pub group_id: Option<String>,
    pub deduplication_id: Option<String>,
    pub trace_header: Option<String>,
    pub receipt_handle: Option<String>,
    pub hide: Option<i64>,
    pub delay: Option<i64>,
}

/// What a service answers.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Response {
    /// The same with one more header.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// What a 200 says of an entry that was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryFate {
    /// It is in `Failed`: code, message, whose fault.
    Failed(&'static str, &'static str, bool),
    /// It is in neither list.
    Missing,
}

impl Call {
    /// As `PublishBatch orders 10`.
    pub fn summary(&self) -> String {
        match self.entries.len() {
            0 => format!("{} {}", self.op, self.to),
            count => format!("{} {} {count}", self.op, self.to),
        }
    }

    /// The positions of the entries that contain a text.
    pub fn entries_with(&self, text: &str) -> Vec<usize> {
        let with = |entry: &Entry| {
            entry.body.contains(text) || entry.receipt_handle.as_ref().is_some_and(|it| it.contains(text))
        };
        (0..self.entries.len()).filter(|index| with(&self.entries[*index])).collect()
    }
}

/// Reads a request in the protocol of its service: SNS takes forms, SQS and Firehose JSON, Lambda and
/// S3 plain bodies. The names of headers are in lower case.
pub fn read(method: &str, uri: &str, header: impl Fn(&str) -> Option<String>, body: &[u8]) -> Call {
    let (_, rest) = uri.split_once("://").unwrap();
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, path) = (host.to_owned(), path.to_owned());
    let target = header("x-amz-target");
    let chunked = header("content-encoding").is_some_and(|it| it.contains("aws-chunked"));
    let is_form = header("content-type").is_some_and(|it| it.contains("form-urlencoded"));
    let kept = ["if-none-match", "content-type", "if-match", "x-amz-invocation-type", "x-amzn-trace-id"];
    let headers =
        kept.iter().filter_map(|name| Some(((*name).to_owned(), header(name)?))).collect::<BTreeMap<_, _>>();

    let mut call = Call {
        op: String::new(),
        host: host.clone(),
        to: String::new(),
        entries: Vec::new(),
        headers: BTreeMap::new(),
        object: String::new(),
        taken: Vec::new(),
    };
    if let Some(op) = target.as_ref().and_then(|target| target.strip_prefix("Firehose_20150804.")) {
        op.clone_into(&mut call.op);
        let body: Value = serde_json::from_slice(body).unwrap();
        body["DeliveryStreamName"].as_str().unwrap().clone_into(&mut call.to);
        let records = body["Records"].as_array().unwrap().iter();
        call.entries = records
            .map(|record| STANDARD.decode(record["Data"].as_str().unwrap()).unwrap())
            .map(|data| Entry { body: String::from_utf8(data).unwrap(), ..Entry::default() })
            .collect();
    } else if let Some(target) = target {
        target.strip_prefix("AmazonSQS.").unwrap().clone_into(&mut call.op);
        let body: Value = serde_json::from_slice(body).unwrap();
        let url = body["QueueUrl"].as_str().unwrap();
        let path = url.strip_prefix(&format!("https://{host}/123456789012/"));
        path.unwrap_or(url).clone_into(&mut call.to);
        call.entries = body["Entries"].as_array().into_iter().flatten().map(sqs_entry).collect();
    } else if is_form {
        let form = form(std::str::from_utf8(body).unwrap());
        call.op.clone_from(&form["Action"]);
        if call.op == "PublishBatch" {
            let topic = form["TopicArn"].rsplit(':').next().unwrap();
            topic.clone_into(&mut call.to);
            call.entries = sns_entries(&form);
            call.headers = headers;
            call.headers.remove("content-type");
        } else if call.op == "Publish" {
            form["TopicArn"].rsplit(':').next().unwrap().clone_into(&mut call.to);
            let structure = form.get("MessageStructure").cloned();
            call.headers.extend(structure.map(|it| ("message-structure".to_owned(), it)));
            let (body, subject) = (form["Message"].clone(), form.get("Subject").cloned());
            call.entries = vec![Entry { body, subject, ..Entry::default() }];
        } else {
            let of = ["SubscriptionArn", "NextToken"].iter().find_map(|name| form.get(*name));
            call.to = of.cloned().unwrap_or_default();
        }
    } else if let Some(rest) = path.strip_prefix("2015-03-31/functions/") {
        "Invoke".clone_into(&mut call.op);
        let arn = percent_decode_str(rest.strip_suffix("/invocations").unwrap()).decode_utf8().unwrap();
        let name = arn.strip_prefix("arn:aws:lambda:eu-central-1:123456789012:function:").unwrap();
        name.clone_into(&mut call.to);
        call.headers = headers;
        call.entries = vec![Entry { body: String::from_utf8(body.to_vec()).unwrap(), ..Entry::default() }];
    } else {
        let (place, query) = path.split_once('?').unwrap_or((&path, ""));
        let place = percent_decode_str(place).decode_utf8().unwrap();
        // The bucket is a part of the host, unless the host is one of a test's own.
        let bucket = host.split_once(".s3.").map(|(bucket, _)| format!("{bucket}/"));
        call.to = format!("{}{place}", bucket.unwrap_or_default());
        call.headers = headers;
        if query.contains("list-type=2") {
            "ListObjectsV2".clone_into(&mut call.op);
            call.headers = form(query);
            let prefix = call.headers.remove("prefix").unwrap_or_default();
            call.to = format!("{}/{prefix}", call.to.trim_end_matches('/'));
            return call;
        }
        let op = if method == "GET" { "GetObject" } else { "PutObject" };
        op.clone_into(&mut call.op);
        let body = if chunked { unchunked(body) } else { body.to_vec() };
        call.object = String::from_utf8(body).unwrap();
    }
    call
}

pub fn form(body: &str) -> BTreeMap<String, String> {
    let decoded =
        |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().unwrap().into_owned();
    body.split('&').map(|pair| pair.split_once('=').unwrap()).map(|(k, v)| (decoded(k), decoded(v))).collect()
}

fn sns_entries(form: &BTreeMap<String, String>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for number in 1.. {
        let prefix = format!("PublishBatchRequestEntries.member.{number}");
        let field = |name: &str| form.get(&format!("{prefix}.{name}")).cloned();
        let Some(id) = field("Id") else { break };
        assert_eq!(id, (number - 1).to_string());
        let mut attributes = BTreeMap::new();
        for number in 1.. {
            let part = |name: &str| field(&format!("MessageAttributes.entry.{number}.{name}"));
            let Some(name) = part("Name") else { break };
            let kind = part("Value.DataType").unwrap();
            let text = part("Value.StringValue");
            let value = text.or(part("Value.BinaryValue").map(|bytes| format!("base64 {bytes}"))).unwrap();
            attributes.insert(name, (kind, value));
        }
        entries.push(Entry {
            body: field("Message").unwrap(),
            subject: field("Subject"),
            attributes,
            group_id: field("MessageGroupId"),
            deduplication_id: field("MessageDeduplicationId"),
            ..Entry::default()
        });
    }
    entries
}

fn sqs_entry(entry: &Value) -> Entry {
    let text = |name: &str| entry[name].as_str().map(str::to_owned);
    let attributes = entry["MessageAttributes"].as_object().into_iter().flatten();
    let attributes = attributes.map(|(name, attribute)| {
        let bytes = attribute["BinaryValue"].as_str().map(|bytes| format!("base64 {bytes}"));
        let value = attribute["StringValue"].as_str().map(str::to_owned).or(bytes).unwrap();
        (name.clone(), (attribute["DataType"].as_str().unwrap().to_owned(), value))
    });
    let trace = &entry["MessageSystemAttributes"]["AWSTraceHeader"];
    Entry {
        body: text("MessageBody").unwrap_or_default(),
        subject: None,
        attributes: attributes.collect(),
        group_id: text("MessageGroupId"),
        deduplication_id: text("MessageDeduplicationId"),
        trace_header: trace["StringValue"].as_str().map(str::to_owned),
        receipt_handle: text("ReceiptHandle"),
        hide: entry["VisibilityTimeout"].as_i64(),
        delay: entry["DelaySeconds"].as_i64(),
    }
}

/// Takes the chunks of a streamed upload apart: `<hex size>[;extension]\r\n<bytes>\r\n` ...
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let head = std::str::from_utf8(&body[..end]).unwrap();
        let size = usize::from_str_radix(head.split(';').next().unwrap(), 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 2 + size + 2..];
    }
}

/// What Lambda answers: at once for an event, with the function's own answer for a request.
pub fn function_answer(call: &Call, error: Option<&str>) -> Response {
    let event = call.headers.get("x-amz-invocation-type").is_some_and(|kind| kind == "Event");
    if event {
        return response(202, String::new());
    }
    let body = error.map_or("null", |_| r#"{"errorMessage":"relay S3CR3T is down","errorType":"Error"}"#);
    let answer = response(200, body.to_owned());
    match error {
        Some(error) => answer.with("x-amz-function-error", error),
        None => answer,
    }
}

/// Firehose answers in the order of the records, and not at all for those after a missing one.
fn stream_answer(all: &[(usize, Option<EntryFate>)]) -> String {
    let answered = all.iter().take_while(|(_, disposition)| *disposition != Some(EntryFate::Missing));
    let answers: Vec<_> = answered
        .map(|(index, disposition)| match disposition {
            Some(EntryFate::Failed(code, message, _)) => {
                json!({ "ErrorCode": code, "ErrorMessage": message })
            }
            _ => json!({ "RecordId": format!("new-{index}") }),
        })
        .collect();
    let failed = all.iter().filter(|(_, disposition)| disposition.is_some()).count();
    json!({ "FailedPutCount": failed, "RequestResponses": answers }).to_string()
}

/// The lists of a batch answer, in another order than the request's: AWS promises none.
pub fn batch_answer(op: &str, all: &[(usize, Option<EntryFate>)]) -> String {
    if op == "PutRecordBatch" {
        return stream_answer(all);
    }
    let json = op != "PublishBatch";
    let mut successful = Vec::new();
    let mut failed = Vec::new();
    for (index, disposition) in all.iter().rev() {
        match disposition {
            Some(EntryFate::Missing) => {}
            None if json => {
                let md5 = "00000000000000000000000000000000";
                successful.push(
                    json!({ "Id": index.to_string(), "MessageId": "new", "MD5OfMessageBody": md5 })
                        .to_string(),
                );
            }
            None => successful
                .push(format!("<member><Id>{index}</Id><MessageId>new-{index}</MessageId></member>")),
            Some(EntryFate::Failed(code, message, sender)) if json => {
                let id = index.to_string();
                let entry = json!({ "Id": id, "Code": code, "Message": message, "SenderFault": sender });
                failed.push(entry.to_string());
            }
            Some(EntryFate::Failed(code, message, sender)) => failed.push(format!(
                "<member><Id>{index}</Id><Code>{code}</Code><Message>{message}</Message>\
                 <SenderFault>{sender}</SenderFault></member>"
            )),
        }
    }
    if json {
        return format!(r#"{{"Successful":[{}],"Failed":[{}]}}"#, successful.join(","), failed.join(","));
    }
    sns_answer(
        "PublishBatch",
        &format!("<Failed>{}</Failed><Successful>{}</Successful>", failed.concat(), successful.concat()),
    )
}

pub fn subscription_answer(attributes: &BTreeMap<String, String>) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let entries = attributes.iter().map(|(key, value)| {
        ["<entry><key>", key, "</key><value>", &escaped(value), "</value></entry>"].concat()
    });
    let entries = entries.collect::<Vec<_>>().concat();
    sns_answer("GetSubscriptionAttributes", &format!("<Attributes>{entries}</Attributes>"))
}

pub fn sns_answer(op: &str, result: &str) -> String {
    format!(
        "<{op}Response xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><{op}Result>{result}</{op}Result>\
         <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></{op}Response>"
    )
}

/// An error in the form of the operation's service.
pub fn refusal(op: &str, status: u16, code: &str, message: &str) -> Response {
    match op {
        "Invoke" => {
            let body = json!({ "Type": "User", "Message": message }).to_string();
            response(status, body).with("x-amzn-errortype", code)
        }
        "Publish" | "PublishBatch" | "GetSubscriptionAttributes" | "ListSubscriptions" => response(
            status,
            format!(
                "<ErrorResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><Error><Type>Sender</Type>\
                 <Code>{code}</Code><Message>{message}</Message></Error><RequestId>r</RequestId></ErrorResponse>"
            ),
        ),
        "PutObject" | "GetObject" | "ListObjectsV2" => response(
            status,
            format!("<Error><Code>{code}</Code><Message>{message}</Message><RequestId>r</RequestId></Error>"),
        ),
        _ => {
            let bare = code.rsplit('.').next().unwrap();
            let kind = if bare == "NonExistentQueue" { "QueueDoesNotExist" } else { bare };
            let body = json!({ "__type": format!("com.amazonaws.sqs#{kind}"), "message": message });
            response(status, body.to_string()).with("x-amzn-query-error", &format!("{code};Sender"))
        }
    }
}

/// An answer about an object. As in S3, equal objects have equal tags.
pub fn tagged(object: &str, answer: Response) -> Response {
    answer.with("etag", &etag(object))
}

pub fn etag(object: &str) -> String {
    let mut hasher = DefaultHasher::new();
    object.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

pub fn response(status: u16, body: String) -> Response {
    Response { status, headers: Vec::new(), body }
}
