import { Effect } from "effect"
import { type LoggedDelivery, type ReplayOutcome } from "../../../api/console/Deliveries.ts"
import type { DeliveryId } from "../../../domain/Ids.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import type { Tone } from "../../ui/Badge.tsx"
import { type BatchAction, BatchSheet } from "../../ui/batch/BatchSheet.tsx"
import { compareValues } from "../../ui/batch/compareValues.ts"
import { RecordTable } from "../../ui/batch/RecordTable.tsx"
import type { SelectedRows } from "../../ui/selection/useSelection.ts"
import { RelativeTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { deliveryPath } from "./deliveryFilter.ts"

const outcomes: Record<ReplayOutcome, readonly [Tone, string]> = {
  queued: ["good", "queued"],
  not_failed: ["quiet", "no longer failed"],
  not_found: ["quiet", "no longer stored"],
  queue_full: ["bad", "not queued: the queue of the endpoint is full"],
  endpoint_disabled: ["bad", "not queued: the endpoint is disabled"]
}

/** Outcomes after which a delivery can be replayed later. */
const repeatable: ReadonlySet<ReplayOutcome> = new Set(["queue_full", "endpoint_disabled"])

const actions: ReadonlyArray<BatchAction<"replay">> = [{ verb: "replay", label: "Replay", kind: "primary" }]

const nothingCompared = compareValues([])

/**
 * A dialog that replays deliveries. After a failed request it can be sent again: deliveries that it queued are not queued twice.
 */
export const ReplaySheet = ({
  deliveries,
  onClose,
  onReplayed,
  selection
}: {
  readonly deliveries: ReadonlyArray<LoggedDelivery>
  readonly selection: SelectedRows<DeliveryId>
  readonly onClose: () => void
  readonly onReplayed: () => void
}) => (
  <BatchSheet
    title="Replay"
    nouns={["delivery", "deliveries"]}
    rows={deliveries}
    idOf={({ id }) => id}
    selection={selection}
    actions={actions}
    send={(_, sent) =>
      Effect.map(
        consoleClient.deliveries.replay({
          payload: { deliveries: sent.map(({ endpoint_id, id }) => ({ endpoint_id, delivery_id: id })) }
        }),
        ({ results }) => {
          onReplayed()
          const byId = new Map(sent.map((one) => [one.id, one]))
          return results.map(({ delivery_id, outcome }) => {
            const delivery = byId.get(delivery_id)
            const [tone, text] = outcomes[outcome]
            return {
              id: delivery_id,
              name: delivery === undefined ? delivery_id : <DeliveryName delivery={delivery} />,
              outcome: text,
              tone,
              summary: text,
              isDone: outcome === "queued",
              isSelected: repeatable.has(outcome)
            }
          })
        }
      )
    }
    onClose={onClose}
  >
    {(rows) => (
      <>
        <p>
          {rows.length === 1 ? "It is" : "They are"} queued again with the original event ids and the full
          retry schedule. Receivers that drop duplicates by id accept {rows.length === 1 ? "it" : "them"}{" "}
          once.
        </p>
        <RecordTable
          label="Deliveries"
          noun="Delivery"
          whole=""
          comparison={nothingCompared}
          selection={selection}
          onOpen={onClose}
          records={rows.map((delivery) => ({
            id: delivery.id,
            label: `${delivery.type} ${delivery.approval_id ?? ""}`,
            to: deliveryPath(delivery),
            name: <DeliveryName delivery={delivery} />
          }))}
        />
      </>
    )}
  </BatchSheet>
)

const DeliveryName = ({ delivery }: { readonly delivery: LoggedDelivery }) => (
  <>
    <UntrustedText text={delivery.type} /> <UntrustedText text={delivery.tool ?? ""} />{" "}
    <span className="quiet">
      <RelativeTime time={delivery.created_at} />{" "}
      <span className="id">{delivery.approval_id ?? delivery.id}</span>
    </span>
  </>
)
