import { Context, DateTime, Effect, Layer, Option, Schema, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import { type ExportFormat, MAX_CONCURRENT_EXPORTS, MAX_EXPORTED } from "../../api/console/Exports.ts"
import { MAX_LIMIT, type PageRequest } from "../../api/Pagination.ts"
import { RateLimited } from "../../api/Problems.ts"
import { csvRecord } from "../../domain/csv.ts"
import type { OrgId } from "../../domain/Ids.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import { compileJsonEncoder } from "../../domain/json/compileJsonEncoder.ts"
import { Audit } from "../identity/Audit.ts"
import type { Page } from "../store/Pagination.ts"
import { StoreClock } from "../store/StoreClock.ts"
import { atomic } from "../store/transaction.ts"
import type { ExportedList } from "./Exports/exportedLists.ts"

/** An export that a person asks for. */
export interface ExportRequest<Item, Filter, Id extends string, E> {
  readonly format: ExportFormat
  readonly filter: Filter
  /** Reads a page of the list. */
  readonly read: (request: PageRequest<Id>) => Effect.Effect<Page<Item, Id>, E>
}

/**
 * Lists of the console as files. A page of the list is read when the client has received the one before, so that an export of any size
 * needs the memory of a page. Exports contain personal data, so each is audited.
 */
export class Exports extends Context.Service<
  Exports,
  {
    /**
     * Makes the response that streams a list. The first page is read before, so that a list that does not exist fails with a problem.
     * A failure after that breaks the connection, so that the browser reports an incomplete download.
     */
    readonly respond: <Item, Encoded, Filter, Id extends string, E>(
      principal: Principal,
      list: ExportedList<Item, Encoded, Filter>,
      request: ExportRequest<Item, Filter, Id, E>
    ) => Effect.Effect<HttpServerResponse.HttpServerResponse, E | RateLimited>
    /** Exports that are being sent to an organization. */
    readonly running: (org_id: OrgId) => number
  }
>()("countersign/server/console/Exports") {
  static readonly layer = Layer.effect(
    Exports,
    Effect.gen(function* () {
      const atomically = atomic(yield* SqlClient.SqlClient)
      const audit = yield* Audit
      const clock = yield* StoreClock
      const sending = new Map<OrgId, number>()

      const running = (org_id: OrgId): number => sending.get(org_id) ?? 0

      const change = (org_id: OrgId, by: number): void => {
        const count = running(org_id) + by
        if (count === 0) sending.delete(org_id)
        else sending.set(org_id, count)
      }

      /** Counts a running export. Only a stream counts: a client may leave before it starts, or send a HEAD request. */
      const slot = (org_id: OrgId) =>
        Effect.acquireRelease(
          Effect.suspend(() => {
            // Several requests may have been admitted before the first of them started.
            if (running(org_id) >= MAX_CONCURRENT_EXPORTS) return Effect.die(TOO_MANY)
            return Effect.sync(() => change(org_id, 1))
          }),
          () => Effect.sync(() => change(org_id, -1))
        )

      return Exports.of({
        running,
        respond: Effect.fn("Exports.respond")(function* (principal, list, { filter, format, read }) {
          const { org_id } = principal
          if (running(org_id) >= MAX_CONCURRENT_EXPORTS) {
            return yield* new RateLimited({ detail: TOO_MANY, retry_after_seconds: 10 })
          }
          const first = yield* read({ limit: MAX_LIMIT })
          yield* atomically(
            audit.record(principal, "list.exported", list.name, {
              format,
              ...definedMembers(Schema.encodeSync(list.filter)(filter))
            })
          )
          const at = DateTime.formatIso(yield* clock.now)
          const { contentType, encode, head } = formatOf(list, format)
          const pages = Stream.paginate(
            { page: Effect.succeed(first), left: MAX_EXPORTED },
            ({ left, page }) =>
              Effect.map(Effect.orDie(page), ({ items, next_cursor }) => {
                const written = items.slice(0, left)
                const rest = left - written.length
                return [
                  [encode(written)],
                  next_cursor === null || rest === 0
                    ? Option.none()
                    : Option.some({
                        page: Effect.orDie(read({ limit: MAX_LIMIT, cursor: next_cursor })),
                        left: rest
                      })
                ]
              })
          )
          const file = Stream.unwrap(
            Effect.as(slot(org_id), Stream.concat(head === "" ? Stream.empty : Stream.succeed(head), pages))
          )
          return HttpServerResponse.stream(Stream.encodeText(file), {
            contentType,
            headers: {
              "content-disposition": `attachment; filename="${list.name}-${at.slice(0, 19).replaceAll(":", "")}Z.${format}"`
            }
          })
        })
      })
    })
  )
}

const TOO_MANY = `Too many concurrent exports of this organization: ${MAX_CONCURRENT_EXPORTS} run at a time. Wait until one has ended.`

/** Spreadsheets take a file for UTF-8 if it begins with a byte order mark. */
const BYTE_ORDER_MARK = "\uFEFF"

const formatOf = <Item, Encoded>(
  { columns, item }: Pick<ExportedList<Item, Encoded, never>, "columns" | "item">,
  format: ExportFormat
): {
  readonly contentType: string
  readonly head: string
  readonly encode: (items: ReadonlyArray<Item>) => string
} => {
  const encode = compileJsonEncoder(item)
  const encodeUnknown = Schema.encodeSync(item)
  const textOf = (one: Item): string => encode(one) ?? JSON.stringify(encodeUnknown(one))
  if (format === "jsonl") {
    return {
      contentType: "application/jsonl",
      head: "",
      encode: (items) => items.map((one) => `${textOf(one)}\n`).join("")
    }
  }
  const values = Object.values(columns)
  return {
    contentType: "text/csv; charset=utf-8; header=present",
    head: BYTE_ORDER_MARK + csvRecord(Object.keys(columns)),
    encode: (items) =>
      items
        .map((one) => {
          const record = encodeUnknown(one)
          return csvRecord(values.map((valueOf) => valueOf(record) ?? null))
        })
        .join("")
  }
}

const definedMembers = (
  filter: Readonly<Record<string, Schema.Json | undefined>>
): Record<string, Schema.Json> =>
  Object.fromEntries(
    Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]))
  )
