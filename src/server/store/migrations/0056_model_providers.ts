import { statements } from "./statements.ts"

/**
 * Lets providers send extra headers, which are secret like keys, and deployments of Azure OpenAI be called. A base URL may have headers
 * without a key. A change of the headers, like one of the key, makes replicas read the organization's secrets again (0025).
 */
export default statements(
  `ALTER TABLE provider_keys
    ALTER COLUMN api_key DROP NOT NULL,
    ADD COLUMN headers bytea`,
  `DROP TRIGGER provider_keys_secret_changed ON provider_keys`,
  `CREATE CONSTRAINT TRIGGER provider_keys_secret_changed
    AFTER INSERT OR UPDATE OF api_key, headers ON provider_keys
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION secret_changed()`,
  `COMMENT ON TABLE provider_keys IS 'API keys and headers of model providers, one row per task and base URL.'`,
  `COMMENT ON COLUMN provider_keys.task_id IS 'Task that uses them.'`,
  `COMMENT ON COLUMN provider_keys.base_url IS 'Base URL that they are sent to, and to no other.'`,
  `COMMENT ON COLUMN provider_keys.api_key IS 'Sealed key; null if there is none.'`,
  `COMMENT ON COLUMN provider_keys.headers IS 'Sealed extra headers, a JSON object of texts; null if there are none.'`,
  `COMMENT ON COLUMN provider_keys.updated_at IS 'When they were last set.'`
)
