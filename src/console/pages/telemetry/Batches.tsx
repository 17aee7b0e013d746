import { Atom } from "effect/reactivity"
import type { TelemetryDeliveryId, TelemetryDestinationId } from "../../../domain/Ids.ts"
import {
  type TelemetryDelivery,
  TelemetryDeliveryStatus
} from "../../../domain/telemetry/TelemetryDestination.ts"
import { useEffect } from "react"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { pagedAtom } from "../../state/pagedAtom.ts"
import { defineQuery } from "../../state/queryState.ts"
import { useCan } from "../../state/session.ts"
import { Badge, type Tone } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"

/** The filter of the batches in the address. */
const parameters = defineQuery({ status: TelemetryDeliveryStatus })
type StatusFilter = TelemetryDeliveryStatus | "all"

/** The batches with a status, page by page. */
export const batchesAtom = Atom.family((status: StatusFilter) =>
  pagedAtom(
    (cursor: TelemetryDeliveryId | undefined) =>
      consoleClient.deliveries.batches({
        query: {
          ...(status === "all" ? {} : { status }),
          ...(cursor === undefined ? {} : { cursor })
        }
      }),
    "batches"
  )
)

/** How often the first page is read again, in milliseconds. Further pages that were loaded stay as they are. */
const REFRESH_INTERVAL_MS = 2_500

const statuses: Record<TelemetryDeliveryStatus, readonly [Tone, string]> = {
  pending: ["wait", "Pending"],
  delivered: ["good", "Delivered"],
  failed: ["bad", "Failed"],
  partial: ["note", "Partial"]
}

/** The latest batches of exported spans, each with a replay button if it failed. */
export const Batches = ({
  id,
  onChange
}: {
  readonly id: TelemetryDestinationId
  readonly onChange: () => void
}) => {
  const [{ status = "all" }, setQuery] = useQueryState(parameters)
  const atom = batchesAtom(status)
  const pages = useAtomValue(atom)
  const isFirstPage = pages._tag !== "Success" || pages.value.items.length <= 1
  useEffect(() => {
    if (!isFirstPage) return undefined
    const timer = setInterval(() => {
      if (!document.hidden) refresh(atom)
    }, REFRESH_INTERVAL_MS)
    return () => clearInterval(timer)
  }, [atom, isFirstPage])
  return (
    <section className="card" aria-labelledby="batches">
      <div className="card-head">
        <div>
          <h2 id="batches">Batches</h2>
          <p className="quiet small">Newest first. Failed batches are kept for 72 hours.</p>
        </div>
        <Tabs<StatusFilter>
          label="Batch status"
          selected={status}
          onSelect={(name) => setQuery({ status: name === "all" ? undefined : name })}
          options={[
            ["all", "All"],
            ["failed", "Failed"],
            ["partial", "Partial"],
            ["pending", "Pending"],
            ["delivered", "Delivered"]
          ]}
        />
      </div>
      <PagedList atom={atom}>
        {(batches) =>
          batches.length === 0 ? (
            status === "all" ? (
              <EmptyState title="No spans exported yet">
                Spans are exported in batches, a few seconds after they end.
              </EmptyState>
            ) : (
              <EmptyState title={`No ${status} batches`} />
            )
          ) : (
            <ul className="rows">
              {batches.map((batch) => (
                <Batch
                  key={batch.id}
                  id={id}
                  batch={batch}
                  onChange={() => {
                    refresh(atom)
                    onChange()
                  }}
                />
              ))}
            </ul>
          )
        }
      </PagedList>
    </section>
  )
}

const Batch = ({
  batch,
  id,
  onChange
}: {
  readonly id: TelemetryDestinationId
  readonly batch: TelemetryDelivery
  readonly onChange: () => void
}) => {
  const can = useCan()
  const [tone, status] = statuses[batch.status]
  const replay = useAction(() =>
    apiClient.telemetryDestinations.replayDelivery({ params: { id, delivery_id: batch.id } })
  )
  const runReplay = async () => {
    if ((await replay.run()) !== undefined) showToast("Batch queued")
    onChange()
  }
  return (
    <li className="row">
      <div className="row-line">
        <Badge tone={tone}>{status}</Badge>
        <span className="row-text">
          {batch.span_count === 1
            ? `1 ${batch.signal === "spans" ? "span" : "score"}`
            : `${batch.span_count.toLocaleString("en")} ${batch.signal}`}
          {batch.rejected_spans === 0 ? null : (
            <span className="row-error">{batch.rejected_spans.toLocaleString("en")} rejected</span>
          )}
          {batch.last_error === null ? null : (
            <span className="row-error">
              <UntrustedText text={batch.last_error} />
            </span>
          )}
        </span>
        <span className="quiet small row-meta">
          {batch.attempts === 1 ? "1 attempt" : `${batch.attempts} attempts`}
          {batch.http_status === null ? "" : `, ${batch.http_status}`} ·{" "}
          <RelativeTime time={batch.created_at} />
        </span>
        <span className="row-actions">
          {batch.status === "failed" && can("org_config.write") ? (
            <Button small pending={replay.pending} onClick={() => void runReplay()}>
              Replay
            </Button>
          ) : null}
        </span>
      </div>
      <FailureNotice failure={replay.failure} />
    </li>
  )
}
