import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { AuditAction, AuditEntry } from "../domain/identity/AuditEntry.ts"
import { AuditCheckpoint, ChainedAuditEntry } from "../domain/identity/ChainedAuditEntry.ts"
import { AuditEntryId, KeyId } from "../domain/Ids.ts"
import { timestamp } from "../domain/Time.ts"
import { isVisibleLine } from "../domain/VisibleText.ts"
import { Authentication, requires } from "./Authorization.ts"
import { describeLines, linesQuery } from "./describeLines.ts"
import { RequestBody } from "./Middleware.ts"
import { listOrder, searchWords } from "./listQuery.ts"
import { NUMBER_CURSOR, numberCursor, page, pageQuery } from "./Pagination.ts"

/** The filters of the list. */
export const auditFilter = {
  action: Schema.optionalKey(AuditAction).annotateKey({ description: "Only entries of this action." }),
  target_id: Schema.optionalKey(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), isVisibleLine)
  ).annotateKey({ description: "Only entries about the resource with this ID." }),
  actor_id: Schema.optionalKey(KeyId).annotateKey({ description: "Only entries of this API key." }),
  occurred_after: Schema.optionalKey(timestamp("Only entries of this time or later.")),
  occurred_before: Schema.optionalKey(timestamp("Only entries before this time.")),
  text: searchWords("whose action, target, actor's name or details contain"),
  order: listOrder
}
export type AuditFilter = Schema.Struct.Type<typeof auditFilter>

/** A position of the chain, in a cursor. */
const ChainPosition = Schema.String.check(Schema.isPattern(new RegExp(NUMBER_CURSOR, "u")))

/** A page of entries of the audit log. */
export const AuditEntryPage = page("entries", AuditEntry, AuditEntryId)

export class AuditLogApi extends HttpApiGroup.make("auditLog")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: { ...pageQuery(AuditEntryId), ...auditFilter },
      success: AuditEntryPage
    })
      .middleware(requires("approvals.admin"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "listAuditEntries",
          summary: "List audit entries",
          description:
            "Lists entries, newest first. Filters can be combined. One request with several examines a limited number of entries, so a page can have fewer matches than `limit`, or none: continue until `next_cursor` is null."
        })
      ),
    HttpApiEndpoint.get("export", "/export", {
      query: {
        ...linesQuery(ChainPosition),
        after: Schema.optionalKey(
          numberCursor(
            "Only entries after this position of the chain, such as the last one of an earlier export.",
            "a position of the chain, in decimal digits"
          )
        )
      },
      success: HttpApiSchema.StreamNdjson({ schema: ChainedAuditEntry })
    })
      .middleware(requires("approvals.admin"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "exportAuditLog",
          summary: "Export the audit log",
          description:
            "Streams the entries with their hash chain as JSON Lines, one entry per line, oldest first. `countersign audit verify` verifies them. Entries past their retention are missing at the beginning.",
          transform: describeLines("The entries.", { noun: "entries", order: "oldest" })
        })
      ),
    HttpApiEndpoint.get("getCheckpoint", "/checkpoint", {
      success: AuditCheckpoint
    })
      .middleware(requires("approvals.admin"))
      .annotateMerge(
        OpenApi.annotations({
          identifier: "getAuditCheckpoint",
          summary: "Get a checkpoint of the audit log",
          description:
            "Returns the newest position of the hash chain. Stored elsewhere, it proves later that no earlier entry was changed or removed, also not by the operator of the service."
        })
      )
  )
  .prefix("/v1/audit-log")
  .middleware(RequestBody)
  .middleware(Authentication)
  .annotateMerge(
    OpenApi.annotations({
      title: "Audit log",
      description:
        "Who changed what, and who signed in to the console. Each entry is written in the transaction of its change and never changes."
    })
  ) {}
