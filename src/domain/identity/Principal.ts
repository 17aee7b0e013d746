import { Schema } from "effect"
import { KeyId, type OrgId } from "../Ids.ts"
import type { Scope } from "./Scope.ts"

export const Actor = Schema.Struct({
  id: KeyId.annotateKey({ description: "The API key's ID." }),
  name: Schema.String.annotateKey({ description: "The API key's name at that time." })
}).annotate({
  identifier: "Actor",
  description: "The API key that acted. Always taken from the authenticated request, never from its body."
})
export type Actor = typeof Actor.Type

/** The API key that two columns name, which are both null if there is none. */
export const actorOf = (id: KeyId | null, name: string | null): Actor | null =>
  id === null || name === null ? null : { id, name }

/** The authenticated caller of a request. */
export interface Principal {
  readonly org_id: OrgId
  readonly actor: Actor
  readonly scopes: ReadonlySet<Scope>
  /** The groups of the caller's key. */
  readonly groups: ReadonlyArray<string>
  /** The keys that made the caller's key, directly or through keys that they made. Empty if the operator made it. */
  readonly keyMakers: ReadonlyArray<KeyId>
  /** The same, and the identities of the same human being with their makers: see `identityMakers`. For decisions, not for ownership. */
  readonly makers: ReadonlyArray<KeyId>
}
