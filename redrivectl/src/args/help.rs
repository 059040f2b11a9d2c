//! The exit codes, as every help text ends with them.

/// Shown at the end of every help text.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something failed or could not be read; what was done is printed all the same
  2  bad usage or bad input: nothing was done";

pub(super) const EXIT_CODES_OF_DOCTOR: &str = "\
Exit codes:
  0  done: there is no error, though there may be what it cannot tell
  1  there are errors, or the function could not be read
  2  bad usage or bad input: nothing was done";

pub(super) const EXIT_CODES_OF_DRILL: &str = "\
Exit codes:
  0  everything was seen as planned, and is taken away again
  1  something failed, was not seen as planned, or is left
  2  bad usage or bad input, drills are not permitted, or not confirmed: nothing was done
  4  it was interrupted; what it made is taken away";

pub(super) const EXIT_CODES_OF_SERVE: &str = "\
Exit codes:
  0  it was ended by Ctrl-C
  1  something failed, as where the port is taken
  2  bad usage or bad input: nothing was done
  4  it was ended by Ctrl-C while an action was under way, which stopped";

pub(super) const EXIT_CODES_OF_REPLAY: &str = "\
A replay that was interrupted, stopped or killed goes on with --resume and its id, which `replays` shows.

Exit codes:
  0  every letter that was asked for is sent; in a dry run, could be
  1  it failed
  2  bad usage or bad input: nothing was done
  3  done, but letters were left out
  4  it stopped or was interrupted: go on with --resume
  5  another replay is at work on these letters
  6  AWS denied a call: permissions are missing";

pub(super) const EXIT_CODES_OF_REPLAYS: &str = "\
Exit codes:
  0  done
  1  it failed, or there is no such replay
  2  bad usage or bad input: nothing was done
  5  others kept writing to the replay: nothing was done
  6  AWS denied a call: permissions are missing";

pub(super) const EXIT_CODES_OF_ORDERS: &str = "\
Exit codes:
  0  done: the orders are written, and the letters that wait are asked to wake
  1  something failed, was interrupted or could not be read; what was done is printed
  2  bad usage or bad input, or not confirmed: nothing was done";
