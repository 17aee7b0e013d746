import { Effect } from "effect"
import { Atom } from "effect/reactivity"
import { useEffect, useState } from "react"
import type { TelemetryDestination } from "../../../domain/telemetry/TelemetryDestination.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { service } from "../../state/service.ts"
import { useCan } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { Confirm } from "../../ui/Confirm.tsx"
import { Empty } from "../../ui/Empty.tsx"
import { Loaded } from "../../ui/Loaded.tsx"
import { PageHead } from "../../ui/PageHead.tsx"
import { Problem } from "../../ui/Problem.tsx"
import { Safe } from "../../ui/Safe.tsx"
import { Ago, At } from "../../ui/Time.tsx"
import { say } from "../../ui/toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { Health, healthAtom } from "../endpoints/Health.tsx"
import { Batches, batchesAtom } from "./Batches.tsx"
import { NewDestination } from "./NewDestination.tsx"

const destinationsAtom = Atom.make(
  Effect.map(service.telemetry_destinations.list(), ({ destinations }) => destinations)
)

/** How often the figures are asked for again, in milliseconds. */
const LOOK_AGAIN_MS = 2_500

/** Where the organization's spans are sent. */
export default function Telemetry() {
  const can = useCan()
  const result = useAtomValue(destinationsAtom)
  const [making, setMaking] = useState(false)
  return (
    <>
      <Loaded result={result} atom={destinationsAtom}>
        {([destination]) => (
          <div className="stack">
            <PageHead
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
            </PageHead>
            {destination === undefined ? (
              <div className="card">
                <Empty title="No collector is set">
                  Any that takes OTLP over https with JSON; an organization has one at most.
                </Empty>
              </div>
            ) : (
              <Destination destination={destination} />
            )}
          </div>
        )}
      </Loaded>
      {making ? (
        <NewDestination
          onClose={() => setMaking(false)}
          onMade={() => {
            setMaking(false)
            refresh(destinationsAtom)
            say("The collector is set")
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
  const test = useAction(() => service.telemetry_destinations.test({ params }))
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
    }, LOOK_AGAIN_MS)
    return () => clearInterval(timer)
  }, [id])
  return (
    <>
      <section className="card padded stack" aria-labelledby="collector">
        <div className="change-head">
          <div>
            <h2 id="collector">
              <Safe text={destination.url_hint} />
            </h2>
            <p className="quiet small">
              set <At time={destination.created_at} /> ·{" "}
              {destination.last_delivered_at === null ? (
                "took no spans yet"
              ) : (
                <>
                  last took spans <Ago time={destination.last_delivered_at} />
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
                    if (accepted !== undefined) say("The collector took the test span")
                    return undefined
                  })
                }
              >
                Send a test span
              </Button>
              <Confirm
                small={false}
                label="Remove"
                title="Remove the collector?"
                act={() => service.telemetry_destinations.remove({ params })}
                onDone={() => {
                  refresh(destinationsAtom)
                  say("The collector is removed")
                }}
              >
                <p>Spans that wait are dropped, and failed batches can no longer be replayed.</p>
              </Confirm>
            </div>
          ) : null}
        </div>
        <Problem failure={test.failure} />
        {destination.last_error === null ? null : (
          <p className="notice warn">
            The last error: <Safe text={destination.last_error} />
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
      <Health id={id} />
      <Batches id={id} onChange={lookAgain} />
    </>
  )
}
