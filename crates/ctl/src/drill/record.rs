//! Records how AWS answers questions about its behaviour. It asks two queues of the drill's own.
//!
//! The file has cases in the form of `crates/sim/tests/recorded`: operations with their parameters and the answers.
//! Names, ids and receipt handles are replaced. The messages have one letter as their content.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use aws_sdk_sns::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::types::{ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::scene::DrillResources;
use super::story::DrillHalt;
use crate::console::CommandFailure;
use crate::s3_location::BucketPrefix;

/// The longest word of a refusal that is kept. Longer ones may be handles, names or ids.
const LONGEST_WORD: usize = 24;

/// The body of every message.
const BODY: &str = "a";

/// Asks the questions, and writes down the answers.
pub(super) struct DrillRecorder<'a> {
    pub(super) scene: &'a DrillResources,
    pub(super) s3: aws_sdk_s3::Client,
    /// The control prefix. The questions to S3 are about an object below it that does not exist.
    pub(super) control: Option<BucketPrefix>,
    pub(super) year: i16,
}

/// The two queues for the questions.
#[derive(Clone, Copy)]
enum RecorderQueue {
    Standard,
    Fifo,
}

/// A case in progress.
struct RecorderCase<'a> {
    sqs: &'a aws_sdk_sqs::Client,
    url: String,
    is_fifo: bool,
    steps: Vec<Value>,
    /// Receipt handles by their names in the case.
    handles: BTreeMap<&'static str, String>,
}

/// Returns the year of a moment.
pub(super) fn year(now: Timestamp) -> i16 {
    now.to_zoned(TimeZone::UTC).year()
}

/// Returns the file's text for an answer.
fn answered<T, E: ProvideErrorMetadata>(
    result: Result<T, SdkError<E, HttpResponse>>,
) -> Result<(Option<T>, Value), CommandFailure> {
    match result {
        Ok(answer) => Ok((Some(answer), json!({}))),
        Err(SdkError::ServiceError(error)) => {
            let (status, error) = (error.raw().status().as_u16(), error.err().meta());
            let code = error.code().map_or_else(|| status.to_string(), str::to_owned);
            Ok((None, json!({ "error": code, "status": status, "says": words(error.message()) })))
        }
        Err(error) => Err(CommandFailure::Work(format!("no answer: {error}"))),
    }
}

/// Fails if SQS refused something that the case needs first.
fn not_refused(operation: &str, then: &Value) -> Result<(), CommandFailure> {
    let refused = |code: &str| Err(CommandFailure::Work(format!("SQS refused {operation}: {code}")));
    then["error"].as_str().map_or(Ok(()), refused)
}

/// Returns a refusal without words that may be handles, names or ids.
fn words(message: Option<&str>) -> String {
    let message = message.unwrap_or_default();
    let reason = message.split_once("Reason: ").map_or(message, |(_, reason)| reason);
    let is_word = |word: &&str| word.len() <= LONGEST_WORD && !word.contains(['/', '"', '@']);
    let words: Vec<_> = reason.split(' ').take_while(is_word).collect();
    words.join(" ")
}

impl DrillRecorder<'_> {
    /// Asks everything, and writes the file.
    pub(super) async fn record(&self, file: &Path) -> Result<String, DrillHalt> {
        let cases = self.cases().await?;
        let mut text = String::from("[\n");
        for (number, case) in cases.iter().enumerate() {
            text += if number > 0 { ",\n  " } else { "  " };
            text += &case.to_string();
        }
        text += "\n]\n";
        let cannot = |error| CommandFailure::Work(format!("cannot write {}: {error}", file.display()));
        std::fs::write(file, text).map_err(cannot)?;
        Ok(format!("wrote {} cases to {}", cases.len(), file.display()))
    }

    async fn cases(&self) -> Result<Vec<Value>, DrillHalt> {
        let names = &self.scene.names;
        for queue in [names.asked(), names.asked_in_order()] {
            if !self.scene.make_asked(&queue).await? {
                return Err(
                    CommandFailure::Work(format!("SQS is still deleting a queue named {queue}")).into()
                );
            }
        }
        let mut cases = Vec::new();

        let mut case = self.case(RecorderQueue::Standard).await?;
        case.send().await?;
        case.receive("h", 60).await?;
        case.wait(2).await;
        case.hide("h", 43_200).await?;
        case.hide_in_batch("h", 43_200).await?;
        cases.push(case.ends("a message is hidden for twelve hours after its receive", self.year).await?);

        let mut case = self.case(RecorderQueue::Standard).await?;
        case.send().await?;
        case.receive("h", 0).await?;
        case.receive("i", 5).await?;
        case.hide("h", 60).await?;
        case.wait(6).await;
        case.look("j", 30).await?;
        cases.push(case.ends("an old handle with a time above zero", self.year).await?);

        let mut case = self.case(RecorderQueue::Standard).await?;
        case.send().await?;
        case.receive("h", 0).await?;
        case.receive("i", 5).await?;
        case.delete("h").await?;
        case.wait(6).await;
        case.look("j", 30).await?;
        cases.push(case.ends("a deletion by an old handle", self.year).await?);

        let mut case = self.case(RecorderQueue::Standard).await?;
        case.send().await?;
        case.receive("h", 30).await?;
        case.delete("h").await?;
        case.hide("h", 60).await?;
        case.hide_in_batch("h", 60).await?;
        cases.push(case.ends("hiding a deleted message, alone and in a batch", self.year).await?);

        let mut case = self.case(RecorderQueue::Fifo).await?;
        case.send().await?;
        case.receive("h", 1).await?;
        case.wait(2).await;
        case.hide_in_batch("h", 5).await?;
        case.hide("h", 5).await?;
        cases.push(
            case.ends("FIFO: hiding by a handle that has expired, in a batch and alone", self.year).await?,
        );

        if let Some(control) = &self.control {
            let key = format!("{}/{}/none", control.prefix, names.topic());
            let asked = self.s3.get_object().bucket(&control.bucket).key(key).send().await;
            let (_, then) = answered(asked)?;
            let get = json!(["GetObject", { "Bucket": "{b}", "Key": "none" }, then]);
            let steps = json!([["CreateBucket", { "Bucket": "{b}" }, {}], get]);
            cases.push(told("an object that does not exist, for who may list its prefix", self.year, &steps));
        }
        Ok(cases)
    }

    async fn case(&self, kind: RecorderQueue) -> Result<RecorderCase<'_>, CommandFailure> {
        let (name, told, attributes) = match kind {
            RecorderQueue::Standard => (self.scene.names.asked(), "{q}", json!({})),
            RecorderQueue::Fifo => {
                (self.scene.names.asked_in_order(), "{q}.fifo", json!({ "FifoQueue": "true" }))
            }
        };
        let is_fifo = matches!(kind, RecorderQueue::Fifo);
        let url = self.scene.url(&name).await?;
        let url = url.ok_or_else(|| CommandFailure::Work(format!("the queue {name} does not exist")))?;
        let create = json!(["CreateQueue", { "QueueName": told, "Attributes": attributes }, { "keep": { "q": "QueueUrl" } }]);
        Ok(RecorderCase { sqs: &self.scene.sqs, url, is_fifo, steps: vec![create], handles: BTreeMap::new() })
    }
}

/// Returns a case as the file has it.
fn told(case: &str, year: i16, steps: &Value) -> Value {
    json!({ "case": case, "source": "redrivectl drill", "year": year, "steps": steps })
}

impl RecorderCase<'_> {
    fn handle(&self, name: &str) -> Result<String, CommandFailure> {
        let none = || CommandFailure::Work("SQS did not hand out the message: run it again".to_owned());
        self.handles.get(name).cloned().ok_or_else(none)
    }

    fn step(&mut self, operation: &str, mut parameters: Value, then: &Value) {
        parameters["QueueUrl"] = "$q".into();
        self.steps.push(json!([operation, parameters, then]));
    }

    async fn send(&mut self) -> Result<(), CommandFailure> {
        let mut send = self.sqs.send_message().queue_url(&self.url).message_body(BODY);
        let mut parameters = json!({ "MessageBody": BODY });
        if self.is_fifo {
            send = send.message_group_id("g").message_deduplication_id("d");
            (parameters["MessageGroupId"], parameters["MessageDeduplicationId"]) = ("g".into(), "d".into());
        }
        let (_, then) = answered(send.send().await)?;
        not_refused("SendMessage", &then)?;
        self.step("SendMessage", parameters, &then);
        Ok(())
    }

    /// Receives the message within some seconds, and keeps its handle under this name. Fails without a
    /// message, because the case would then record something else.
    async fn receive(&mut self, name: &'static str, seconds: i32) -> Result<(), CommandFailure> {
        self.look(name, seconds).await?;
        self.handle(name).map(drop)
    }

    /// Receives the message, if there is one.
    async fn look(&mut self, name: &'static str, seconds: i32) -> Result<(), CommandFailure> {
        let receive = self.sqs.receive_message().queue_url(&self.url).max_number_of_messages(1);
        let (answer, mut then) =
            answered(receive.visibility_timeout(seconds).wait_time_seconds(2).send().await)?;
        not_refused("ReceiveMessage", &then)?;
        let messages = answer.and_then(|answer| answer.messages).unwrap_or_default();
        then["bodies"] = messages.iter().map(|message| message.body().unwrap_or_default()).collect();
        if let Some(handle) = messages.first().and_then(|message| message.receipt_handle()) {
            then["keep"] = json!({ name: "Messages.0.ReceiptHandle" });
            self.handles.insert(name, handle.to_owned());
        }
        let parameters =
            json!({ "MaxNumberOfMessages": 1, "VisibilityTimeout": seconds, "WaitTimeSeconds": 2 });
        self.step("ReceiveMessage", parameters, &then);
        Ok(())
    }

    async fn wait(&mut self, seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
        self.steps.push(json!(["wait", seconds]));
    }

    async fn hide(&mut self, name: &str, seconds: i32) -> Result<(), CommandFailure> {
        let hide = self.sqs.change_message_visibility().queue_url(&self.url);
        let hide = hide.receipt_handle(self.handle(name)?);
        let (_, then) = answered(hide.visibility_timeout(seconds).send().await)?;
        let parameters = json!({ "ReceiptHandle": format!("${name}"), "VisibilityTimeout": seconds });
        self.step("ChangeMessageVisibility", parameters, &then);
        Ok(())
    }

    async fn hide_in_batch(&mut self, name: &str, seconds: i32) -> Result<(), CommandFailure> {
        let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id("1").visibility_timeout(seconds);
        let entry = entry.receipt_handle(self.handle(name)?).build();
        let entry = entry.map_err(|error| CommandFailure::Work(error.to_string()))?;
        let hide = self.sqs.change_message_visibility_batch().queue_url(&self.url).entries(entry);
        let (answer, mut then) = answered(hide.send().await)?;
        if let Some(answer) = answer {
            let taken: Vec<_> = answer
                .successful()
                .iter()
                .map(aws_sdk_sqs::types::ChangeMessageVisibilityBatchResultEntry::id)
                .collect();
            let failed: BTreeMap<_, _> =
                answer.failed().iter().map(|entry| (entry.id(), entry.code())).collect();
            let says: BTreeMap<_, _> =
                answer.failed().iter().map(|entry| (entry.id(), words(entry.message()))).collect();
            (then["ok"], then["failed"], then["says"]) = (json!(taken), json!(failed), json!(says));
        }
        let entry = json!({ "Id": "1", "ReceiptHandle": format!("${name}"), "VisibilityTimeout": seconds });
        self.step("ChangeMessageVisibilityBatch", json!({ "Entries": [entry] }), &then);
        Ok(())
    }

    async fn delete(&mut self, name: &str) -> Result<(), CommandFailure> {
        let delete = self.sqs.delete_message().queue_url(&self.url).receipt_handle(self.handle(name)?);
        let (_, then) = answered(delete.send().await)?;
        self.step("DeleteMessage", json!({ "ReceiptHandle": format!("${name}") }), &then);
        Ok(())
    }

    /// Ends the case, and deletes its message. Otherwise the next case would receive it.
    async fn ends(self, case: &str, year: i16) -> Result<Value, CommandFailure> {
        for (number, handle) in self.handles.values().enumerate() {
            let entry =
                DeleteMessageBatchRequestEntry::builder().id(number.to_string()).receipt_handle(handle);
            let entry = entry.build().map_err(|error| CommandFailure::Work(error.to_string()))?;
            // The queue is deleted in the end.
            let _ = self.sqs.delete_message_batch().queue_url(&self.url).entries(entry).send().await;
        }
        Ok(told(case, year, &self.steps.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn of_a_refusal_only_words_are_kept() {
        let handle = "AQEBzbVv0B0EpnT8FUAzPTY7eL9vRoDbeOgz";
        let reason = "The receipt handle has expired.";
        let expired = format!("Value {handle} for parameter ReceiptHandle is invalid. Reason: {reason}");
        assert_eq!(words(Some(&expired)), reason);
        assert_eq!(
            words(Some(&format!("The input receipt handle \"{handle}\" is not valid."))),
            "The input receipt handle"
        );
        assert_eq!(words(Some(&format!("{handle} is gone"))), "");
        assert_eq!(words(None), "");
    }
}
