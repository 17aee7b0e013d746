import { Effect } from "effect"
import { comments, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/**
 * People who sign in with an identity provider. Each has a row of `api_keys` whose text nobody knows, so that decisions, votes, sessions,
 * email and the audit log refer to a person as they do to a key. Replicas of an older version show people among the keys.
 */
export default Effect.andThen(
  statements(
    `CREATE TABLE people (
      org_id text COLLATE "C" NOT NULL,
      key_id text COLLATE "C" NOT NULL,
      issuer text COLLATE "C" NOT NULL,
      subject text COLLATE "C" NOT NULL,
      signed_in_at timestamptz NOT NULL,
      PRIMARY KEY (org_id, key_id),
      FOREIGN KEY (org_id, key_id) REFERENCES api_keys (org_id, key_id) ON DELETE CASCADE
    )`,
    `CREATE UNIQUE INDEX people_subject ON people (issuer, subject, org_id)`,
    `CREATE INDEX api_keys_address ON api_keys (org_id, lower(email)) WHERE email IS NOT NULL`
  ),
  comments({
    people: [
      "People who signed in with an identity provider. Their names, rights and addresses are in api_keys.",
      {
        ...orgId,
        key_id:
          "Row of api_keys that stands for the person. Nobody knows its text, so it authenticates no request.",
        issuer: "Issuer of the identity provider.",
        subject: "The provider's identifier of the person, which never changes.",
        signed_in_at: "When the person last signed in."
      }
    ]
  })
)
