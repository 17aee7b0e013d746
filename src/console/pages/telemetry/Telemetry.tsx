import { Effect } from "effect"
import { Atom } from "effect/reactivity"
import { useEffect } from "react"
import type { TelemetryDestination } from "../../../domain/telemetry/TelemetryDestination.ts"
import { refresh } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { useKeptDialog } from "../../state/keptWork.ts"
import { useCan } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { FirstRecord } from "../../ui/FirstRecord.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { RelativeTime, AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { DeliveryHealth, healthAtom } from "../endpoints/DeliveryHealth.tsx"
import { Batches } from "./Batches.tsx"
import { NEW_COLLECTOR, NewDestination } from "./NewDestination.tsx"

const destinationsAtom = Atom.make(
  Effect.map(apiClient.telemetryDestinations.list(), ({ destinations }) => destinations)
)

/** The polling interval of this page, in milliseconds. */
const REFRESH_INTERVAL_MS = 2_500

/** The telemetry page: the organization's collector, its queue, delivery health and latest batches. */
export default function Telemetry() {
  const can = useCan()
  const creation = useKeptDialog(NEW_COLLECTOR)
  return (
    <>
      <AsyncContent atom={destinationsAtom}>
        {([destination]) => (
          <div className="stack">
            <PageHeader
              title="Telemetry"
              aside={
                destination === undefined && can("org_config.write") ? (
                  <Button kind="primary" onClick={creation.open}>
                    Add collector
                  </Button>
                ) : null
              }
            >
              Exports runs, steps and approvals as spans to your OpenTelemetry collector. Export is sampled
              and never delays a run.
            </PageHeader>
            {destination === undefined ? (
              <div className="card">
                <FirstRecord
                  of={({ firstCollector }, origin) => firstCollector(origin)}
                  look={() => refresh(destinationsAtom)}
                />
              </div>
            ) : (
              <Destination destination={destination} />
            )}
          </div>
        )}
      </AsyncContent>
      {creation.isOpen ? (
        <NewDestination
          onClose={creation.close}
          onCreated={() => {
            creation.close()
            refresh(destinationsAtom)
            showToast("Collector added")
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
  const test = useAction(() => apiClient.telemetryDestinations.test({ params }))
  const reload = () => {
    refresh(destinationsAtom)
  }
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.hidden) return
      refresh(destinationsAtom)
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
              added <AbsoluteTime time={destination.created_at} /> ·{" "}
              {destination.last_delivered_at === null ? (
                "no spans accepted yet"
              ) : (
                <>
                  last accepted spans <RelativeTime time={destination.last_delivered_at} />
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
                    if (accepted !== undefined) showToast("Test span accepted")
                    return undefined
                  })
                }
              >
                Send test span
              </Button>
              <ConfirmButton
                small={false}
                label="Remove"
                title="Remove this collector?"
                act={() => apiClient.telemetryDestinations.remove({ params })}
                onDone={() => {
                  refresh(destinationsAtom)
                  showToast("Collector removed")
                }}
              >
                <p>Queued spans are dropped, and failed batches can no longer be replayed.</p>
              </ConfirmButton>
            </div>
          ) : null}
        </div>
        <FailureNotice failure={test.failure} />
        {destination.last_error === null ? null : (
          <p className="notice warn">
            Last error: <UntrustedText text={destination.last_error} />
          </p>
        )}
      </section>
      <div className="figures">
        <div className="card figure">
          <strong>{destination.pending_spans.toLocaleString("en")}</strong>
          <span className="quiet">spans queued</span>
        </div>
        <div className="card figure">
          <strong>{destination.dropped_spans.toLocaleString("en")}</strong>
          <span className="quiet">spans dropped</span>
        </div>
      </div>
      <DeliveryHealth id={id} />
      <Batches id={id} onChange={reload} />
    </>
  )
}
