/** Entries of the audit log as the console lists them: with the names of their targets, and filtered by several actions. */
import { Schema, SchemaTransformation } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { AuditAction, AuditEntry } from "../../domain/identity/AuditEntry.ts"
import { AuditEntryId } from "../../domain/Ids.ts"
import { Actor } from "../../domain/identity/Principal.ts"
import { auditFilter } from "../AuditLog.ts"
import { Authentication, requires } from "../Authorization.ts"
import { RequestBody } from "../Middleware.ts"
import { page, pageQuery } from "../Pagination.ts"
import { CONSOLE_PATH } from "./consolePath.ts"

/** The most people whose names the filter of the list offers. */
export const MAX_AUDIT_ACTORS = 200

const Actions = Schema.Array(AuditAction).check(Schema.isMinLength(1))

/** The actions by their subject, the first part of their names. */
export const auditSubjects: ReadonlyMap<string, ReadonlyArray<AuditAction>> = Map.groupBy(
  AuditAction.literals.toSorted(),
  (action) => action.split(".", 1)[0] ?? ""
)

/** All actions of a subject as one name, so that an address stays short. */
const WHOLE = ".*"

const split = (text: string): ReadonlyArray<string> =>
  text.split(",").flatMap((name): ReadonlyArray<string> => {
    const all = name.endsWith(WHOLE) ? auditSubjects.get(name.slice(0, -WHOLE.length)) : undefined
    return all ?? [name]
  })

const join = (actions: ReadonlyArray<string>): string =>
  [...auditSubjects]
    .flatMap(([subject, all]) => {
      const chosen = all.filter((action) => actions.includes(action))
      return chosen.length === all.length && all.length > 1 ? [subject + WHOLE] : chosen
    })
    .join(",")

/** Actions in one text, such as `approval.*,grant.revoked`. */
export const AuditActions = Schema.String.check(Schema.isMaxLength(1_000)).pipe(
  Schema.decodeTo(
    Schema.Array(Schema.String),
    SchemaTransformation.transform({ decode: split, encode: join })
  ),
  Schema.decodeTo(
    Actions,
    SchemaTransformation.passthroughSupertype<typeof Actions.Encoded, ReadonlyArray<string>>()
  )
)

/** The filters of the list and of its export. */
export const auditRowFilter = {
  ...auditFilter,
  action: Schema.optionalKey(AuditActions)
}
export type AuditRowFilter = Schema.Struct.Type<typeof auditRowFilter>

/** The record that an entry is about. Only its members that the signed-in key may read, while it exists. */
export const AuditTarget = Schema.Struct({
  /** The tool, the name or the description. */
  name: Schema.String,
  /** The rule's sentence about the step, or its most important arguments. Null: there is none. */
  summary: Schema.NullOr(Schema.String),
  /** The comment of this decision. Null: there is none. */
  comment: Schema.NullOr(Schema.String)
}).annotate({ identifier: "AuditTarget" })
export type AuditTarget = typeof AuditTarget.Type

export const AuditRow = Schema.Struct({
  ...AuditEntry.fields,
  /** Null: the target has no name, or the key may not read it. */
  target: Schema.NullOr(AuditTarget)
}).annotate({ identifier: "AuditRow" })
export type AuditRow = typeof AuditRow.Type

/** The audit log's list and the people to filter it by. */
export class ConsoleAuditApi extends HttpApiGroup.make("audit_rows")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { ...pageQuery(AuditEntryId), ...auditRowFilter },
      success: page("entries", AuditRow, AuditEntryId)
    }).middleware(requires("approvals.admin")),
    HttpApiEndpoint.get("actors", "/actors", {
      success: Schema.Struct({ actors: Schema.Array(Actor) })
    }).middleware(requires("approvals.admin"))
  )
  .prefix(`${CONSOLE_PATH}/audit-rows`)
  .middleware(RequestBody)
  .middleware(Authentication) {}
