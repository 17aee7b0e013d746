import type { KeyId, OrgId } from "../../domain/Ids.ts"

/** Names a key. */
export interface KeyRef {
  readonly org_id: OrgId
  readonly key_id: KeyId
}
