/** Moves of organizations. */
export const moves = `
-- The last move of an organization from or to this installation. Not moved itself.
CREATE TABLE organization_moves (
  org_id text COLLATE "C" NOT NULL, -- Organization that moves, or moved.
  move_id text COLLATE "C" NOT NULL, -- Id of the export, which its file contains.
  name text NOT NULL, -- Name of the organization.
  state text NOT NULL, -- Here the organization leaves: frozen (exported, can be aborted), moved (belongs to the other installation), left (copy deleted). Here it arrives: copied (an earlier copy is here), importing, staged (imported, not active), arrived (active), discarded (import aborted).
  is_fenced boolean NOT NULL, -- Whether requests and background work of the organization are refused here.
  started_at timestamptz NOT NULL, -- When the move began here.
  changed_at timestamptz NOT NULL, -- When the state last changed.
  moved_to text, -- Base URL of the installation that it moved to; null: not given.
  row_count bigint, -- Rows in the file.
  receipt text COLLATE "C", -- Proves that the file was imported. Where it arrives: the code; where it leaves: its SHA-256, in hex.
  release_code text COLLATE "C", -- Activates the imported copy. Where it leaves: the code; where it arrives: its SHA-256, in hex.
  activation_code text COLLATE "C", -- Proves that the imported copy is active. Where it arrives: the code; where it leaves: its SHA-256, in hex.
  copy_id text COLLATE "C", -- Where it arrives: the copy whose rows are here, which the import completes; null: it has none.
  arrival_release_code text COLLATE "C", -- Where it leaves after it had arrived: the release code of that arrival, as its SHA-256, in hex.
  arrival_activation_code text COLLATE "C", -- Where it leaves after it had arrived: the activation code of that arrival.
  transfer_key text COLLATE "C", -- Where it leaves: the key that the export is encrypted for; null: the export cannot be written again.
  export_receipt text COLLATE "C", -- Where it leaves: the receipt in the file, to write it again.
  export_activation text COLLATE "C", -- Where it leaves: the activation code in the file, to write it again.
  PRIMARY KEY (org_id),
  CHECK (state IN ('frozen', 'moved', 'left', 'copied', 'importing', 'staged', 'arrived', 'discarded'))
);
CREATE INDEX organization_moves_fenced ON organization_moves (org_id) WHERE is_fenced;

-- The last copy of an organization that another installation may have, until its move ends. Not moved itself.
CREATE TABLE organization_copies (
  org_id text COLLATE "C" NOT NULL, -- Organization that was copied.
  copy_id text COLLATE "C" NOT NULL, -- Id of the copy, which its file contains.
  name text NOT NULL, -- Name of the organization.
  created_at timestamptz NOT NULL, -- When the copy was made.
  schema_version integer NOT NULL, -- Number of the newest migration at that time.
  row_count bigint NOT NULL, -- Rows in the copy.
  receipt text COLLATE "C" NOT NULL, -- SHA-256 of the code that proves that the whole copy was loaded, in hex.
  transfer_key text COLLATE "C", -- The key that the copy is encrypted for; null: it was not recorded.
  PRIMARY KEY (org_id)
);

-- Digests of the copied rows, which show the rows that have changed since.
CREATE TABLE organization_copy_rows (
  org_id text COLLATE "C" NOT NULL, -- Organization that was copied.
  table_name text COLLATE "C" NOT NULL, -- Table of the row.
  key text COLLATE "C" NOT NULL, -- Primary key of the row without org_id: a JSON array of texts.
  digest uuid NOT NULL, -- First 16 bytes of the SHA-256 of the row.
  PRIMARY KEY (org_id, table_name, key)
);

-- Running replicas, and what they still work on for an organization that is frozen.
CREATE TABLE organization_move_replicas (
  org_id text COLLATE "C" NOT NULL, -- Organization that moves.
  replica text COLLATE "C" NOT NULL, -- Random id of the process.
  in_flight integer NOT NULL, -- Requests and deliveries in progress.
  seen_at timestamptz NOT NULL, -- When the replica last reported.
  PRIMARY KEY (org_id, replica),
  FOREIGN KEY (org_id) REFERENCES organization_moves(org_id) ON DELETE CASCADE
);
`
