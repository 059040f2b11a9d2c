//! The laws of letters, for every world that has `redrive-sim`'s journal: random worlds in virtual time, the fault
//! matrix and the soak of real processes.
//!
//! | module | contents |
//! |---|---|
//! | [`facts`] | the facts of a letter's life |
//! | [`ledger`] | the record of all letters |
//! | [`reader`] | reads the journal into a ledger; [`world_scene`] is what it must know of the world |
//! | [`judge`] | the laws |
//!
//! | law | broken when |
//! |---|---|
//! | nothing is lost | a letter is neither delivered nor archived, whole, nor in one of the queues |
//! | safe before deleted | a message might be deleted before its invocation knew that another place has it |
//! | whole | a place got something that is not the letter, byte for byte |
//! | one way out | a message has left twice, and nothing explains the first time |
//! | reasons to archive | a letter was archived whose retries did not fail, or before the last can be due |
//! | honest attempts | more attempts than retries, or fewer before `exhausted` than the receives allow |
//! | order | a letter of a FIFO group was attempted or archived while an earlier one lay in the same queue |
//! | batches do not fail | the function answered with an error, or with ids that are not its batch's |

pub mod facts;
pub(crate) mod finished_call;
pub mod judge;
pub mod ledger;
pub mod reader;
pub mod world_scene;

pub use facts::{
    CallEffect, CallResponse, DeleteObstacle, FaultSubject, FunctionRun, LetterNumber, LifeEvent,
    MessageNumber, RunEnd, RunId, SentPlace, TimedFact,
};
pub use judge::JudgedLetter;
pub use judge::{Circumstances, LettersVerdict, NoExcuses, Violation, judge};
pub use ledger::{FaultyCall, Ledger, Plan, RequiredEnd, RequiredOrder};
pub use reader::{LetterReader, spent_by};
pub use world_scene::{WorldNames, WorldScene};
