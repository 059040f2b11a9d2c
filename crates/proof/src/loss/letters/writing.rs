//! Letters as SNS, SQS and Lambda would put them into a dead-letter queue.

use fastrand::Rng;
use redrive_laws::letters::LetterNumber;
use redrive_sim::{SimAttribute, SimAttributes, SimEntry, arn};
use serde_json::{Map, Value, json};

use super::{ProofLetter, ProofLetterKind, SnsContent, TOKEN, TOKEN_DIGITS, named, subscription};

impl ProofLetter {
    /// Writes a letter.
    #[must_use]
    pub fn write(
        who: LetterNumber,
        kind: ProofLetterKind,
        group: Option<String>,
        fifo: bool,
        rng: &mut Rng,
    ) -> Self {
        let token = format!("{TOKEN}{who:0TOKEN_DIGITS$}");
        let padding = "x".repeat(rng.usize(..900));
        let message =
            json!({ "event": "order-placed", "id": token, "note": "Grüße & <b>\"ok\"</b> \u{1F600}\n\u{7}",
            "padding": padding })
            .to_string();
        let bytes = [0, 1, 2, 0xfd, 0xfe, 0xff, u8::try_from(who % 256).unwrap_or(0)];
        let attributes = SimAttributes::from(
            [
                ("way", SimAttribute::string(kind.way())),
                ("priority", SimAttribute::number((who % 7).to_string())),
                ("checksum", SimAttribute::binary(bytes)),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        let sns = SnsContent {
            id: format!("00000000-0000-5000-8000-{who:012}"),
            message,
            subject: format!("Override {who}"),
            attributes,
        };
        let mut letter = Self {
            who,
            kind,
            fifo,
            body: String::new(),
            attributes: SimAttributes::new(),
            trace: (rng.u8(..4) == 0)
                .then(|| format!("Root=1-5759e988-{who:024x};Parent=53995c3f42cd8ad8;Sampled=1")),
            group,
            source: None,
            sns: None,
        };
        match kind {
            ProofLetterKind::Raw | ProofLetterKind::Discovered => {
                letter.body = sns.message;
                letter.attributes = sns.attributes;
            }
            ProofLetterKind::Plain => {
                letter.body = sns.message;
                if fifo {
                    letter.attributes = sns.attributes;
                } else {
                    letter.attributes = SimAttributes::from(
                        [
                            ("RULE_ARN", arn("events", "rule/payments-to-projector")),
                            ("TARGET_ARN", arn("lambda", "function:payments-projector")),
                            ("ERROR_CODE", "THROTTLING".to_owned()),
                        ]
                        .map(|(name, value)| (name.to_owned(), SimAttribute::string(value))),
                    );
                }
            }
            ProofLetterKind::Garbage => letter.body = garbage(&token, rng),
            ProofLetterKind::Destination => {
                letter.body = destination(&sns, fifo);
                letter.sns = Some(sns);
            }
            _ => {
                letter.body = envelope(&sns, kind, fifo);
                letter.source =
                    (kind == ProofLetterKind::Moved).then(|| arn("sqs", &named("payments-billing", fifo)));
                letter.sns = Some(sns);
            }
        }
        letter
    }

    /// Returns the letter as a message for SQS.
    #[must_use]
    pub fn entry(&self) -> SimEntry {
        let mut entry = SimEntry::new("", self.body.as_str());
        if self.fifo {
            entry = entry.fifo(self.group.as_deref().unwrap_or_default(), &format!("letter-{}", self.who));
        }
        entry.attributes.clone_from(&self.attributes);
        entry.trace.clone_from(&self.trace);
        entry
    }
}

fn envelope(sns: &SnsContent, kind: ProofLetterKind, fifo: bool) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let through = subscription(kind, fifo);
    let url = format!("https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={through}");
    // The format is that of SNS.
    format!(
        "{{\n  \"Type\" : \"Notification\",\n  \"MessageId\" : {},\n  \"TopicArn\" : {},\n  \"Subject\" : {},\n  \
         \"Message\" : {},\n  \"Timestamp\" : \"2026-11-01T11:59:58.351Z\",\n  \"UnsubscribeURL\" : {},\n  \
         \"MessageAttributes\" : {}\n}}",
        text(&sns.id),
        text(&arn("sns", &named("payments", fifo))),
        text(&sns.subject),
        text(&sns.message),
        text(&url),
        enveloped(&sns.attributes),
    )
}

pub(super) fn enveloped(attributes: &SimAttributes) -> Value {
    let attribute = |it: &SimAttribute| json!({ "Type": it.kind, "Value": it.value.text() });
    Value::Object(attributes.iter().map(|(name, it)| (name.clone(), attribute(it))).collect::<Map<_, _>>())
}

fn destination(sns: &SnsContent, fifo: bool) -> String {
    let event = json!({ "Records": [{
        "EventSource": "aws:sns", "EventVersion": "1.0",
        "EventSubscriptionArn": subscription(ProofLetterKind::Destination, fifo),
        "Sns": { "Type": "Notification", "MessageId": sns.id, "TopicArn": arn("sns", &named("payments", fifo)),
            "Subject": sns.subject, "Message": sns.message, "Timestamp": "2026-11-01T11:59:58.351Z",
            "MessageAttributes": enveloped(&sns.attributes) } }] });
    json!({ "version": "1.0", "timestamp": "2026-11-01T11:59:59.351Z", "requestPayload": event,
        "requestContext": { "requestId": "r", "functionArn": arn("lambda", "function:payments-notifier:$LATEST"),
            "condition": "RetriesExhausted", "approximateInvokeCount": 3 },
        "responseContext": { "statusCode": 200, "functionError": "Unhandled" },
        "responsePayload": { "errorMessage": "mail relay refused" } })
    .to_string()
}

fn garbage(token: &str, rng: &mut Rng) -> String {
    match rng.u8(..5) {
        0 => format!("call me back, {token}"),
        1 => format!("{{\"Type\" : \"Notification\", \"Message\" : \"{token}\", \"TopicArn"),
        2 => format!("[{token:?}, {{}}, null]"),
        3 => format!("{}\"{token}\"", "[".repeat(300)),
        _ => format!("\u{202e}{token} \u{FFFD} é"),
    }
}
