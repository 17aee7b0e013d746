import { Effect } from "effect"
import { Atom } from "effect/reactivity"
import { useEffect, useState } from "react"
import type { TelemetryDestination } from "../../../domain/telemetry/TelemetryDestination.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useCan } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime, AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { DeliveryHealth, healthAtom } from "../endpoints/DeliveryHealth.tsx"
import { Batches, batchesAtom } from "./Batches.tsx"
import { NewDestination } from "./NewDestination.tsx"

const destinationsAtom = Atom.make(
  Effect.map(apiClient.telemetry_destinations.list(), ({ destinations }) => destinations)
)

/** How often the figures are asked for again, in milliseconds. */
const REFRESH_INTERVAL_MS = 2_500

/** Where the organization's spans are sent. */
export default function Telemetry() {
  const can = useCan()
  const result = useAtomValue(destinationsAtom)
  const [making, setMaking] = useState(false)
  return (
    <>
      <AsyncContent result={result} atom={destinationsAtom}>
        {([destination]) => (
          <div className="stack">
            <PageHeader
              title="Telemetry"
              aside={
                destination === undefined && can("org_config.write") ? (
                  <Button kind="primary" onClick={() => setMaking(true)}>
                    Set the collector
                  </Button>
                ) : null
              }
            >
              Runs, steps and approvals as spans, sent to a collector of your own. Export is sampled, and
              never slows a run.
            </PageHeader>
            {destination === undefined ? (
              <div className="card">
                <EmptyState title="No collector is set">
                  Any that takes OTLP over https with JSON; an organization has one at most.
                </EmptyState>
              </div>
            ) : (
              <Destination destination={destination} />
            )}
          </div>
        )}
      </AsyncContent>
      {making ? (
        <NewDestination
          onClose={() => setMaking(false)}
          onMade={() => {
            setMaking(false)
            refresh(destinationsAtom)
            showToast("The collector is set")
          }}
        />
      ) : null}
    </>
  )
}

const Destination = ({ destination }: { readonly destination: TelemetryDestination }) => {
  const can = useCan()
  const { id } = destination
  const params = { id }
  const test = useAction(() => apiClient.telemetry_destinations.test({ params }))
  const lookAgain = () => {
    refresh(destinationsAtom)
    refresh(batchesAtom(id))
  }
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.hidden) return
      refresh(destinationsAtom)
      refresh(batchesAtom(id))
      refresh(healthAtom(id))
    }, REFRESH_INTERVAL_MS)
    return () => clearInterval(timer)
  }, [id])
  return (
    <>
      <section className="card padded stack" aria-labelledby="collector">
        <div className="change-head">
          <div>
            <h2 id="collector">
              <UntrustedText text={destination.url_hint} />
            </h2>
            <p className="quiet small">
              set <AbsoluteTime time={destination.created_at} /> ·{" "}
              {destination.last_delivered_at === null ? (
                "took no spans yet"
              ) : (
                <>
                  last took spans <RelativeTime time={destination.last_delivered_at} />
                </>
              )}
            </p>
          </div>
          {can("org_config.write") ? (
            <div className="row-actions">
              <Button
                pending={test.pending}
                onClick={() =>
                  void test.run().then((accepted) => {
                    if (accepted !== undefined) showToast("The collector took the test span")
                    return undefined
                  })
                }
              >
                Send a test span
              </Button>
              <ConfirmButton
                small={false}
                label="Remove"
                title="Remove the collector?"
                act={() => apiClient.telemetry_destinations.remove({ params })}
                onDone={() => {
                  refresh(destinationsAtom)
                  showToast("The collector is removed")
                }}
              >
                <p>Spans that wait are dropped, and failed batches can no longer be replayed.</p>
              </ConfirmButton>
            </div>
          ) : null}
        </div>
        <FailureNotice failure={test.failure} />
        {destination.last_error === null ? null : (
          <p className="notice warn">
            The last error: <UntrustedText text={destination.last_error} />
          </p>
        )}
      </section>
      <div className="figures">
        <div className="card figure">
          <strong>{destination.pending_spans.toLocaleString("en")}</strong>
          <span className="quiet">spans waiting</span>
        </div>
        <div className="card figure">
          <strong>{destination.dropped_spans.toLocaleString("en")}</strong>
          <span className="quiet">spans dropped</span>
        </div>
      </div>
      <DeliveryHealth id={id} />
      <Batches id={id} onChange={lookAgain} />
    </>
  )
}
