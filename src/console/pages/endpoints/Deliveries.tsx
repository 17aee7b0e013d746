import { Effect } from "effect"
import { Atom } from "effect/reactivity"
import { type ReactNode, useState } from "react"
import type { DeliveryRecord } from "../../../domain/delivery/DeliveryState.ts"
import type { DeliveryId, EndpointId } from "../../../domain/Ids.ts"
import { Link } from "../../app/router.tsx"
import { useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { Badge, type Tone } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { Table } from "../../ui/Table.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime, AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"

export const deliveriesAtom = Atom.family((id: EndpointId) =>
  Atom.make(
    Effect.map(
      apiClient.notification_endpoints.deliveries({ params: { id } }),
      ({ deliveries }) => deliveries
    )
  )
)

/** Keyed by the number of attempts as well, so that each new attempt reloads the attempt log. */
const detailAtom = Atom.family((id: EndpointId) =>
  Atom.family((delivery: DeliveryId) =>
    Atom.family((_attempts: number) =>
      Atom.make(apiClient.notification_endpoints.delivery({ params: { id, delivery } }))
    )
  )
)

const statuses: Record<DeliveryRecord["status"], readonly [Tone, string]> = {
  pending: ["wait", "Pending"],
  delivering: ["wait", "Delivering"],
  delivered: ["good", "Delivered"],
  failed: ["bad", "Failed"]
}

/** The latest deliveries of an endpoint, each with its attempts and, if it failed, a replay button. */
export const Deliveries = ({
  aside,
  canReplay,
  id,
  onChange
}: {
  readonly id: EndpointId
  /** Whether failed deliveries can be replayed: a disabled endpoint would fail them again. */
  readonly canReplay: boolean
  readonly aside: ReactNode
  readonly onChange: () => void
}) => {
  const result = useAtomValue(deliveriesAtom(id))
  return (
    <section className="card" aria-labelledby="deliveries">
      <div className="card-head">
        <div>
          <h2 id="deliveries">Deliveries</h2>
          <p className="quiet small">Last 50, newest first</p>
        </div>
        {aside}
      </div>
      <AsyncContent result={result} atom={deliveriesAtom(id)}>
        {(deliveries) =>
          deliveries.length === 0 ? (
            <EmptyState title="No deliveries yet">Send a test event to see one.</EmptyState>
          ) : (
            <ul className="rows">
              {deliveries.map((delivery) => (
                <Delivery
                  key={delivery.id}
                  id={id}
                  delivery={delivery}
                  canReplay={canReplay}
                  onChange={onChange}
                />
              ))}
            </ul>
          )
        }
      </AsyncContent>
    </section>
  )
}

const Delivery = ({
  canReplay,
  delivery,
  id,
  onChange
}: {
  readonly id: EndpointId
  readonly canReplay: boolean
  readonly delivery: DeliveryRecord
  readonly onChange: () => void
}) => {
  const [open, setOpen] = useState(false)
  const [tone, status] = statuses[delivery.status]
  const replay = useAction(() =>
    apiClient.notification_endpoints.replay({ params: { id, delivery: delivery.id } })
  )
  return (
    <li className="row">
      <div className="row-line">
        <Badge tone={tone}>{status}</Badge>
        <span className="row-text">
          <Label text={delivery.label} />
          {delivery.last_error === null ? null : (
            <span className="row-error">
              <UntrustedText text={delivery.last_error} />
            </span>
          )}
        </span>
        <span className="quiet small row-meta">
          {delivery.attempts === 1 ? "1 attempt" : `${delivery.attempts} attempts`}
          {delivery.replays === 0
            ? ""
            : delivery.replays === 1
              ? ", 1 replay"
              : `, ${delivery.replays} replays`}{" "}
          · <RelativeTime time={delivery.created_at} />
        </span>
        <span className="row-actions">
          {delivery.status === "failed" && canReplay ? (
            <Button
              small
              pending={replay.pending}
              onClick={() =>
                void replay.run().then((queued) => {
                  if (queued !== undefined) showToast("Delivery queued")
                  onChange()
                  return undefined
                })
              }
            >
              Replay
            </Button>
          ) : null}
          <Button small aria-expanded={open} onClick={() => setOpen(!open)}>
            Attempts
          </Button>
        </span>
      </div>
      <FailureNotice failure={replay.failure} />
      {open ? <Attempts key={`${delivery.attempts} ${delivery.status}`} id={id} delivery={delivery} /> : null}
    </li>
  )
}

/** The type of the delivered event, and a link to its approval. */
const Label = ({ text }: { readonly text: string }) => {
  const can = useCan()
  const [type = "", approval] = text.split(" ")
  return (
    <>
      <UntrustedText text={type} />
      {approval === undefined ? null : (
        <>
          {" "}
          {can("approvals.read") ? (
            <Link className="id" to={`/approvals/${approval}`}>
              {approval}
            </Link>
          ) : (
            <span className="id quiet">{approval}</span>
          )}
        </>
      )}
    </>
  )
}

const Attempts = ({ delivery, id }: { readonly id: EndpointId; readonly delivery: DeliveryRecord }) => {
  const atom = detailAtom(id)(delivery.id)(delivery.attempts)
  const result = useAtomValue(atom)
  return (
    <AsyncContent result={result} atom={atom}>
      {({ attempt_log, event_id }) => (
        <div className="attempts">
          <p className="quiet small">
            Event <span className="id">{event_id}</span>
          </p>
          {attempt_log.length === 0 ? (
            <p className="quiet">No attempts.</p>
          ) : (
            <Table bare columns={["Attempt", "Started", { name: "Duration", number: true }, "Response"]}>
              {attempt_log.map((attempt) => (
                <tr key={attempt.attempt}>
                  <td>{attempt.attempt}</td>
                  <td>
                    <AbsoluteTime time={attempt.started_at} />
                  </td>
                  <td className="number">{attempt.duration_ms.toLocaleString("en")} ms</td>
                  <td>
                    <UntrustedText text={attempt.error ?? `HTTP ${attempt.status}`} />
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </div>
      )}
    </AsyncContent>
  )
}
