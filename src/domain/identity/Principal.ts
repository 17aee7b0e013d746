import { Schema } from "effect"
import { KeyId, type OrgId } from "../Ids.ts"
import type { Scope } from "./Scope.ts"

/** Who did something: the key's id and the name it had then. Never taken from a body. */
export const Actor = Schema.Struct({ id: KeyId, name: Schema.String }).annotate({ identifier: "Actor" })
export type Actor = typeof Actor.Type

/** Whose request this is: the organization and key that a valid API key stands for. */
export interface Principal {
  readonly org_id: OrgId
  readonly actor: Actor
  readonly scopes: ReadonlySet<Scope>
}
