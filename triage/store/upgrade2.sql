ALTER TABLE finding ADD COLUMN state TEXT NOT NULL DEFAULT 'new'; -- new, triaged, reported, fixed, reopened
ALTER TABLE finding ADD COLUMN note TEXT NOT NULL DEFAULT '';     -- a person's
CREATE INDEX finding_seen ON finding (last_seen DESC, id);
CREATE INDEX finding_state ON finding (state, last_seen DESC, id);
CREATE INDEX finding_pass ON finding (pass, last_seen DESC, id);
CREATE TABLE run (
	id        INTEGER PRIMARY KEY,
	at        TEXT NOT NULL,    -- RFC 3339, UTC
	base      TEXT NOT NULL,    -- specs
	head      TEXT NOT NULL,
	verdict   TEXT NOT NULL,
	cases     INTEGER NOT NULL,
	new       INTEGER NOT NULL, -- findings by status
	fixed     INTEGER NOT NULL,
	existing  INTEGER NOT NULL,
	contested INTEGER NOT NULL
) STRICT;
CREATE TABLE result (
	run     INTEGER NOT NULL REFERENCES run (id),
	number  INTEGER NOT NULL, -- of the case in its run, from 0
	name    TEXT NOT NULL,
	outcome TEXT NOT NULL,
	base    TEXT NOT NULL,
	head    TEXT NOT NULL,
	PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
