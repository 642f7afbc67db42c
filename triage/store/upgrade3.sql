-- Version 3: the names by which runs know a finding.
CREATE TABLE member (
	id          TEXT PRIMARY KEY, -- of a finding in one case
	finding     TEXT NOT NULL REFERENCES finding (id)
) STRICT;
