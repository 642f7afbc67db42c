CREATE TABLE finding (
	id          TEXT PRIMARY KEY, -- the cluster: triage.Key.ID
	class       TEXT NOT NULL,
	level       TEXT NOT NULL,
	pass        TEXT NOT NULL,
	instruction TEXT NOT NULL,
	status      TEXT NOT NULL,    -- of the last run that saw it
	first_seen  TEXT NOT NULL,    -- RFC 3339, UTC
	last_seen   TEXT NOT NULL,
	runs        INTEGER NOT NULL,
	cases       INTEGER NOT NULL,
	first_case  TEXT NOT NULL,
	first_build TEXT NOT NULL,    -- that showed it when it was first seen; '' if none did
	last_build  TEXT NOT NULL,    -- and when it was last seen
	fixed_in    TEXT,             -- build
	minimal     TEXT NOT NULL
) STRICT;
CREATE TABLE trial (
	finding     TEXT NOT NULL REFERENCES finding (id),
	build       TEXT NOT NULL,    -- digest
	spec        TEXT NOT NULL,
	bad         INTEGER NOT NULL, -- when it was last tried
	first_tried TEXT NOT NULL,
	last_tried  TEXT NOT NULL,
	PRIMARY KEY (finding, build)
) STRICT;
CREATE TABLE witness (
	finding     TEXT NOT NULL REFERENCES finding (id),
	hash        TEXT NOT NULL,    -- SHA-256 of program and inputs of a case that showed it
	name        TEXT NOT NULL,
	PRIMARY KEY (finding, hash)
) STRICT;
