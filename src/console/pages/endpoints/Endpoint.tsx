import { Option, Schema } from "effect"
import { AsyncResult } from "effect/reactivity"
import { useEffect, useState } from "react"
import { EndpointId } from "../../../domain/Ids.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
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
import { SecretDialog } from "../../ui/Secret.tsx"
import { At } from "../../ui/Time.tsx"
import { say } from "../../ui/toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { Deliveries, deliveriesAtom } from "./Deliveries.tsx"
import { EditEvents } from "./EditEvents.tsx"
import { EndpointState, endpointsAtom } from "./Endpoints.tsx"
import { Health, healthAtom } from "./Health.tsx"
import { ReplayWindow } from "./ReplayWindow.tsx"

const isEndpointId = Schema.is(EndpointId)

/** How often what this page shows is asked for again, in milliseconds: deliveries come and go by themselves. */
const LOOK_AGAIN_MS = 2_500

/** One endpoint: its state, what can be done with it, how it fares, and its deliveries. */
export default function Endpoint({ params }: PageProps) {
  const result = useAtomValue(endpointsAtom)
  const known = Option.getOrUndefined(AsyncResult.value(result))
  const id = params["id"]
  useEffect(() => {
    if (!isEndpointId(id)) return undefined
    const timer = setInterval(() => {
      if (document.hidden) return
      refresh(endpointsAtom)
      refresh(deliveriesAtom(id))
      refresh(healthAtom(id))
    }, LOOK_AGAIN_MS)
    return () => clearInterval(timer)
  }, [id])
  if (known === undefined)
    return (
      <Loaded result={result} atom={endpointsAtom}>
        {() => null}
      </Loaded>
    )
  const endpoint = known.endpoints.find((one) => one.id === id)
  return endpoint === undefined ? (
    <Empty title="There is no such endpoint">
      <Link to="/endpoints">All endpoints</Link>
    </Empty>
  ) : (
    <Open endpoint={endpoint} />
  )
}

const Open = ({ endpoint }: { readonly endpoint: NotificationEndpoint }) => {
  const can = useCan()
  const { id } = endpoint
  const params = { id }
  const [secret, setSecret] = useState<string>()
  const [editing, setEditing] = useState(false)
  const lookAgain = () => {
    refresh(endpointsAtom)
    refresh(deliveriesAtom(id))
  }
  const test = useAction(() => service.notification_endpoints.test({ params }))
  const toggle = useAction((active: boolean) =>
    service.notification_endpoints.update({ params, payload: { active } })
  )
  return (
    <div className="stack">
      <p>
        <Link to="/endpoints">← All endpoints</Link>
      </p>
      <PageHead
        title={<Safe text={endpoint.url_hint} />}
        aside={
          can("org_config.write") ? (
            <>
              <Button
                pending={test.pending}
                onClick={() =>
                  void test.run().then((sent) => {
                    if (sent !== undefined) say(sent.queued ? "A test is on its way" : "The queue is full")
                    lookAgain()
                    return undefined
                  })
                }
              >
                Send a test
              </Button>
              <Button onClick={() => setEditing(true)}>Events</Button>
              <Confirm
                small={false}
                kind="plain"
                label="Rotate secret"
                title="A new signing secret?"
                verb="Rotate"
                act={() => service.notification_endpoints.rotate_secret({ params })}
                onDone={(rotated) => setSecret(rotated.secret)}
              >
                <p>
                  Both secrets sign for 24 hours, so that the receiver can change over without missing
                  anything.
                </p>
              </Confirm>
              <Button
                pending={toggle.pending}
                onClick={() => void toggle.run(!endpoint.active).then(() => lookAgain())}
              >
                {endpoint.active ? "Switch off" : "Switch on"}
              </Button>
              <Confirm
                small={false}
                label="Delete"
                title="Delete the endpoint?"
                act={() => service.notification_endpoints.remove({ params })}
                onDone={() => {
                  refresh(endpointsAtom)
                  navigate("/endpoints")
                  say("The endpoint is deleted")
                }}
              >
                <p>Nothing more is sent to it. What is under way may still arrive.</p>
              </Confirm>
            </>
          ) : null
        }
      >
        <EndpointState endpoint={endpoint} /> · made by <Safe text={endpoint.created_by.name} /> ·{" "}
        <At time={endpoint.created_at} />
      </PageHead>
      <Problem failure={test.failure ?? toggle.failure} />
      {endpoint.cooldown_until === null ? null : (
        <p className="notice warn">
          The receiver failed {endpoint.consecutive_failures} times in a row, so it is left alone until{" "}
          <At time={endpoint.cooldown_until} />; then one delivery tries. A replay waits for that, too.
        </p>
      )}
      {endpoint.active ? null : (
        <p className="notice">
          It is switched off: events make no deliveries for it. An answer of 410 Gone switches an endpoint
          off.
        </p>
      )}
      <Health id={id} />
      <Deliveries
        id={id}
        aside={can("org_config.write") ? <ReplayWindow id={id} onDone={lookAgain} /> : null}
        onChange={lookAgain}
      />
      {editing ? (
        <EditEvents
          endpoint={endpoint}
          onClose={() => {
            setEditing(false)
            refresh(endpointsAtom)
          }}
        />
      ) : null}
      <SecretDialog
        secret={secret}
        title="The new signing secret"
        what="For 24 hours the one before it signs as well."
        onClose={() => setSecret(undefined)}
      />
    </div>
  )
}
