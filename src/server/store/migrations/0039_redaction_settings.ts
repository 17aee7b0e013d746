import { statements } from "./statements.ts"

/**
 * Redaction rules of organizations. Their changes count as changes of the organization's secrets, so that each replica
 * reads both again, and never applies old rules to a new text.
 */
export default statements(
  `CREATE TABLE redaction_settings (
    org_id text COLLATE "C" PRIMARY KEY,
    revision integer NOT NULL,
    rules jsonb NOT NULL
  )`,
  `CREATE CONSTRAINT TRIGGER redaction_settings_secret_changed
    AFTER INSERT OR UPDATE OF rules ON redaction_settings
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION secret_changed()`,
  `COMMENT ON TABLE redaction_settings IS 'What organizations have redacted besides recognizable secrets, as one document each.'`,
  `COMMENT ON COLUMN redaction_settings.org_id IS 'Organization that owns the row.'`,
  `COMMENT ON COLUMN redaction_settings.revision IS 'Raised with each change, for optimistic concurrency.'`,
  `COMMENT ON COLUMN redaction_settings.rules IS 'Patterns, exceptions and kinds of personal data, as a JSON object.'`
)
