// Package action is passgate's side of GitHub: from an event to what changed,
// from a result to outputs, job summary, comment, check and code scanning, and
// the privileged half that publishes results of forks.
//
// One job gives one verdict on every event. Trouble with GitHub (no permission,
// rate limits, an API that is down) takes away ways of saying the verdict, never
// the verdict.
//
// Everything in a pull request is hostile (DESIGN section 8); docs/threat-model.md
// says what is trusted and what stops each attack.
package action
