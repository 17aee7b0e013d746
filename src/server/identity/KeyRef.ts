import type { KeyId, OrgId } from "../../domain/Ids.ts"

/** The primary key of an API key. */
export interface KeyRef {
  readonly org_id: OrgId
  readonly key_id: KeyId
}
