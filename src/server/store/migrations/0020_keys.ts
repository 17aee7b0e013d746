import { statements } from "./statements.ts"

/**
 * A key without scopes of its own has the current scopes of its preset. And the creator of a key in two columns, as in all other tables.
 */
export default statements(
  `ALTER TABLE api_keys
    ALTER COLUMN scopes DROP NOT NULL,
    ADD COLUMN created_by_id text COLLATE "C",
    ADD COLUMN created_by_name text,
    ADD CHECK (scopes IS NOT NULL OR preset IS NOT NULL),
    ADD CHECK ((created_by_id IS NULL) = (created_by_name IS NULL))`,
  `UPDATE api_keys
    SET created_by_id = created_by ->> 'id', created_by_name = created_by ->> 'name'
    WHERE created_by IS NOT NULL`,
  `ALTER TABLE api_keys DROP COLUMN created_by`
)
