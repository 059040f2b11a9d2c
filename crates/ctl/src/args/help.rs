//! The fixed parts of help texts: the first page, the examples at the beginning, the exit codes at the end.

/// The help of the tool itself. It fits one screen of 24 lines and 80 columns: commands in groups, those that an outage needs
/// first.
pub(super) const FIRST_PAGE: &str = "\
Usage: redrivectl COMMAND [OPTIONS]        (for operators of sns-redrive)

outage   status      show what fails, what needs a person, and what to type next
         waiting     count the letters that wait for their next retry
         retry       try letters now, whatever their schedule says
         hold        make no attempts until you take that back
         replay      send archived letters again; list, show, stop, free replays
look     look        show a queue's letters before anything is deployed
         overrides   list what operators told the function, and take it back
         archive     list, show and compare archived letters
         plan        show when a policy retries, as a table and a chart
         explain     show what the function would do with an event, and why
         fleet       show the stacks of many accounts and regions, a line each
         doctor      find what is wrong with a deployment
         serve       show all that as pages in your browser
act      give-up     archive letters instead of trying them again
         erase       erase letters, in all versions
set up   attach      name the queue as the dead-letter queue of subscriptions
         drill       test a deployment with real letters
         completion  write the completion script of a shell
         man         write manual pages

Options: --json, --wide, --version. All of a command: redrivectl COMMAND --help
";

/// The heading of options that only experts and tests need. It is the last one before that of the connection.
pub(super) const ADVANCED: &str = "Advanced";

/// Returns the beginning of a command's help: two examples.
macro_rules! examples {
    ($one:literal, $two:literal) => {
        concat!("Examples:\n  redrivectl ", $one, "\n  redrivectl ", $two)
    };
}
pub(super) use examples;

/// The end of every help text.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something failed or could not be read; the output shows what was done
  2  bad usage or bad input: nothing was done";

pub(super) const EXIT_CODES_OF_DOCTOR: &str = "\
Exit codes:
  0  no errors found; there may be warnings, and things that no call shows
  1  errors found, or the function could not be read
  2  bad usage or bad input: nothing was done
  6  no errors found, but something could not be seen: AWS denied a call, or a call failed";

pub(super) const EXIT_CODES_OF_LOOK: &str = "\
Exit codes:
  0  done: all letters are given back
  1  something failed, or letters stay hidden for the rest of the minute
  2  bad usage or bad input, a queue that is not to be looked at, or not confirmed: nothing was done
  4  interrupted; all letters are given back
  6  something could not be seen: AWS denied a call, or a call failed";

pub(super) const EXIT_CODES_OF_FLEET: &str = "\
Exit codes:
  0  every stack was seen, and no alarm is on
  1  something failed
  2  bad usage or bad input: nothing was asked
  6  no alarm was seen, but something could not be seen; its line says why
  7  a person is needed: an alarm is on";

pub(super) const EXIT_CODES_OF_STATUS: &str = "\
Words:
  letter    a message that could not be delivered, in the dead-letter queue
  wait      letters that are retried by their schedule
  need you  letters that were archived in the time of --range and not replayed: they are kept, and
            not tried any more
  held      letters that an override or a rule holds: nothing is tried until the hold ends
  failing   letters wait after a failure; since the first of them came
  down      every attempt has failed for two minutes or more
  throttled the target asks for time: the function slows down by itself, and nobody is needed
  back      it takes letters again; those that wait are woken
  if every retry fails ...  when the first waiting letter is archived at the earliest; kept until:
            when S3 deletes the first of those that need you
  archived  nothing waits, but letters of this target need you; the last was archived then
  <= ~ >=   at most, about, at least: not everything is counted

Exit codes:
  0  nothing needs a person
  1  something failed
  2  bad usage or bad input: nothing was asked
  6  nothing is seen that needs a person, but something could not be seen
  7  a person is needed, or an alarm is on";

pub(super) const EXIT_CODES_OF_DRILL: &str = "\
Exit codes:
  0  every step went as planned, and everything is removed
  1  a step failed or did not go as planned, or something is left
  2  bad usage or bad input, the stack permits no drills, or not confirmed: nothing was done
  4  interrupted; everything is removed";

pub(super) const EXIT_CODES_OF_SERVE: &str = "\
Exit codes:
  0  ended by Ctrl-C
  1  something failed; for example the port is in use
  2  bad usage or bad input: nothing was done
  4  ended by Ctrl-C during an action, which stopped";

pub(super) const EXIT_CODES_OF_REPLAY: &str = "\
To continue a replay that was interrupted, stopped or killed, give --resume with its id, which `replay list` shows.

Exit codes:
  0  all selected letters are sent; in a dry run: all can be sent, as far as that was checked
  1  the replay failed
  2  bad usage or bad input, or not confirmed: nothing was done
  3  done, but letters were left out
  4  the replay stopped or was interrupted: continue it with --resume
  5  another replay works on these letters
  6  AWS denied a call: permissions are missing";

pub(super) const EXIT_CODES_OF_REPLAY_RECORDS: &str = "\
Exit codes:
  0  done
  1  the command failed, or the replay does not exist
  2  bad usage or bad input, or not confirmed: nothing was done
  5  other processes kept writing to the replay: nothing was done
  6  AWS denied a call: permissions are missing";

pub(super) const EXIT_CODES_OF_ERASE: &str = "\
Exit codes:
  0  done: no version, list or document has one of these letters any more, and no queue holds one
  1  something failed or could not be read; the output shows what was done. Run the same command again
  2  bad usage or bad input, or not confirmed: nothing was done
  3  erased what could be erased: Object Lock keeps some, or some may still lie in a queue; the output says until when
  4  interrupted: run the same command again
  6  AWS denied a call: permissions are missing";

pub(super) const EXIT_CODES_OF_OVERRIDES: &str = "\
Exit codes:
  0  done: the overrides are written, and hidden letters were asked to wake
  1  something failed, was interrupted or could not be read; the output shows what was done
  2  bad usage or bad input, or not confirmed: nothing was done
  4  interrupted: nothing was done";

pub(super) const EXIT_CODES_OF_ATTACH: &str = "\
Exit codes:
  0  done: every selected subscription names the queue; with --undo, what it named before
  1  something failed or could not be read; the output shows what was done
  2  bad usage or bad input, or not confirmed: nothing was done
  3  done, but subscriptions were left alone; the output says why
  4  interrupted; the file says what to undo
  6  AWS denied a call that is needed for all: nothing was done";
