import { useState } from "react"
import {
  type LoggedDelivery,
  MAX_REPLAYED_DELIVERIES,
  type ReplayOutcome,
  type ReplayResult
} from "../../../api/console/Deliveries.ts"
import type { DeliveryId } from "../../../domain/Ids.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import type { Tone } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { Dialog } from "../../ui/Dialog.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { ResultList, summarizeResults } from "../../ui/ResultList.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"

const outcomes: Record<ReplayOutcome, readonly [Tone, string]> = {
  queued: ["good", "queued"],
  not_failed: ["quiet", "no longer failed"],
  not_found: ["quiet", "no longer stored"],
  queue_full: ["bad", "not queued: the queue of the endpoint is full"],
  endpoint_disabled: ["bad", "not queued: the endpoint is disabled"]
}

/** Outcomes after which a delivery can be replayed later. */
const repeatable: ReadonlySet<ReplayOutcome> = new Set(["queue_full", "endpoint_disabled"])

/**
 * A dialog that replays deliveries and then shows the result of each. After a failed request it can be sent again: deliveries that it queued are
 * not queued twice.
 */
export const ReplaySheet = ({
  deliveries,
  onClose,
  onReplayed
}: {
  readonly deliveries: ReadonlyArray<LoggedDelivery>
  readonly onClose: () => void
  /** Gets the deliveries that need no further replay. */
  readonly onReplayed: (done: ReadonlyArray<DeliveryId>) => void
}) => {
  const [results, setResults] = useState<ReadonlyArray<ReplayResult>>()
  const replay = useAction(() =>
    consoleClient.deliveries.replay({
      payload: {
        deliveries: deliveries
          .slice(0, MAX_REPLAYED_DELIVERIES)
          .map(({ endpoint_id, id }) => ({ endpoint_id, delivery_id: id }))
      }
    })
  )
  const submit = async () => {
    const response = await replay.run()
    if (response === undefined) return
    setResults(response.results)
    onReplayed(
      response.results.filter(({ outcome }) => !repeatable.has(outcome)).map(({ delivery_id }) => delivery_id)
    )
  }
  const count = deliveries.length === 1 ? "1 delivery" : `${deliveries.length} deliveries`
  const byId = new Map(deliveries.map((one) => [one.id, one]))
  return (
    <Dialog
      open
      title={results === undefined ? `Replay ${count}` : `Results of ${count}`}
      className="sheet"
      explicitClose={replay.pending}
      onClose={onClose}
    >
      {results === undefined ? (
        <>
          <p>
            {deliveries.length === 1 ? "It is" : "They are"} queued again with the original event ids and the
            full retry schedule. Receivers that drop duplicates by id accept{" "}
            {deliveries.length === 1 ? "it" : "them"} once.
          </p>
          <FailureNotice failure={replay.failure} />
          <div className="dialog-actions">
            <Button onClick={onClose}>Cancel</Button>
            <Button kind="primary" pending={replay.pending} onClick={() => void submit()}>
              Replay {count}
            </Button>
          </div>
        </>
      ) : (
        <ResultList
          summary={summarizeResults(results, ({ outcome }) => outcomes[outcome][1])}
          items={results.map(({ delivery_id, outcome }) => ({
            id: delivery_id,
            name: (
              <>
                <UntrustedText text={byId.get(delivery_id)?.type ?? ""} />{" "}
                <span className="id quiet">{byId.get(delivery_id)?.approval_id ?? delivery_id}</span>
              </>
            ),
            outcome: outcomes[outcome][1],
            tone: outcomes[outcome][0],
            done: outcome === "queued"
          }))}
          onClose={onClose}
        />
      )}
    </Dialog>
  )
}
