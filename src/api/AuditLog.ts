import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { AuditAction, AuditEntry } from "../domain/identity/AuditEntry.ts"
import { AuditEntryId, KeyId } from "../domain/Ids.ts"
import { Timestamp } from "../domain/Time.ts"
import { isVisibleLine } from "../domain/VisibleText.ts"
import { Authentication, requires } from "./Authorization.ts"
import { RequestBody } from "./Middleware.ts"
import { page, pageQuery } from "./Pagination.ts"

/** Which entries a list shows. Times are those of the change, `occurred_after` included and `occurred_before` not. */
export const auditFilter = {
  action: Schema.optionalKey(AuditAction),
  target_id: Schema.optionalKey(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), isVisibleLine)
  ),
  actor_id: Schema.optionalKey(KeyId),
  occurred_after: Schema.optionalKey(Timestamp),
  occurred_before: Schema.optionalKey(Timestamp)
}
export type AuditFilter = Schema.Struct.Type<typeof auditFilter>

/** Who did what: read with `approvals.admin`, written by the service alone. */
export class AuditLogApi extends HttpApiGroup.make("audit_log")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { ...pageQuery(AuditEntryId), ...auditFilter },
      success: page("entries", AuditEntry, AuditEntryId)
    })
      .middleware(requires("approvals.admin"))
      .annotate(OpenApi.Description, "Entries, newest first, narrowed by what the query names.")
  )
  .prefix("/v1/audit-log")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Audit log",
      description:
        "Who did what to keys, endpoints, destinations, rules, decisions, sessions, feedback, tasks, datasets and releases, and who signed in to the console. An entry is written with the change it tells of, in one transaction, and is never changed."
    })
  ) {}
