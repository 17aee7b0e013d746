import { Option, Schema } from "effect"
import { AsyncResult } from "effect/reactivity"
import { useEffect, useState } from "react"
import { EndpointId } from "../../../domain/Ids.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
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
import { SecretDialog } from "../../ui/SecretDialog.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { Deliveries, deliveriesAtom } from "./Deliveries.tsx"
import { EditEvents } from "./EditEvents.tsx"
import { EndpointState, endpointsAtom } from "./Endpoints.tsx"
import { DeliveryHealth, healthAtom } from "./DeliveryHealth.tsx"
import { ReplayWindow } from "./ReplayWindow.tsx"

const isEndpointId = Schema.is(EndpointId)

/** How often what this page shows is asked for again, in milliseconds: deliveries come and go by themselves. */
const REFRESH_INTERVAL_MS = 2_500

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
    }, REFRESH_INTERVAL_MS)
    return () => clearInterval(timer)
  }, [id])
  if (known === undefined)
    return (
      <AsyncContent result={result} atom={endpointsAtom}>
        {() => null}
      </AsyncContent>
    )
  const endpoint = known.endpoints.find((one) => one.id === id)
  return endpoint === undefined ? (
    <EmptyState title="There is no such endpoint">
      <Link to="/endpoints">All endpoints</Link>
    </EmptyState>
  ) : (
    <EndpointView endpoint={endpoint} />
  )
}

const EndpointView = ({ endpoint }: { readonly endpoint: NotificationEndpoint }) => {
  const can = useCan()
  const { id } = endpoint
  const params = { id }
  const [secret, setSecret] = useState<string>()
  const [editing, setEditing] = useState(false)
  const lookAgain = () => {
    refresh(endpointsAtom)
    refresh(deliveriesAtom(id))
  }
  const test = useAction(() => apiClient.notification_endpoints.test({ params }))
  const toggle = useAction((active: boolean) =>
    apiClient.notification_endpoints.update({ params, payload: { active } })
  )
  return (
    <div className="stack">
      <p>
        <Link to="/endpoints">← All endpoints</Link>
      </p>
      <PageHeader
        title={<UntrustedText text={endpoint.url_hint} />}
        aside={
          can("org_config.write") ? (
            <>
              <Button
                pending={test.pending}
                onClick={() =>
                  void test.run().then((sent) => {
                    if (sent !== undefined)
                      showToast(sent.queued ? "A test is on its way" : "The queue is full")
                    lookAgain()
                    return undefined
                  })
                }
              >
                Send a test
              </Button>
              <Button onClick={() => setEditing(true)}>Events</Button>
              <ConfirmButton
                small={false}
                kind="plain"
                label="Rotate secret"
                title="A new signing secret?"
                verb="Rotate"
                act={() => apiClient.notification_endpoints.rotate_secret({ params })}
                onDone={(rotated) => setSecret(rotated.secret)}
              >
                <p>
                  Both secrets sign for 24 hours, so that the receiver can change over without missing
                  anything.
                </p>
              </ConfirmButton>
              <Button
                pending={toggle.pending}
                onClick={() => void toggle.run(!endpoint.active).then(() => lookAgain())}
              >
                {endpoint.active ? "Switch off" : "Switch on"}
              </Button>
              <ConfirmButton
                small={false}
                label="Delete"
                title="Delete the endpoint?"
                act={() => apiClient.notification_endpoints.remove({ params })}
                onDone={() => {
                  refresh(endpointsAtom)
                  navigate("/endpoints")
                  showToast("The endpoint is deleted")
                }}
              >
                <p>Nothing more is sent to it. What is under way may still arrive.</p>
              </ConfirmButton>
            </>
          ) : null
        }
      >
        <EndpointState endpoint={endpoint} /> · made by <UntrustedText text={endpoint.created_by.name} /> ·{" "}
        <AbsoluteTime time={endpoint.created_at} />
      </PageHeader>
      <FailureNotice failure={test.failure ?? toggle.failure} />
      {endpoint.cooldown_until === null ? null : (
        <p className="notice warn">
          The receiver failed {endpoint.consecutive_failures} times in a row, so it is left alone until{" "}
          <AbsoluteTime time={endpoint.cooldown_until} />; then one delivery tries. A replay waits for that,
          too.
        </p>
      )}
      {endpoint.active ? null : (
        <p className="notice">
          It is switched off: events make no deliveries for it. An answer of 410 Gone switches an endpoint
          off.
        </p>
      )}
      <DeliveryHealth id={id} />
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
