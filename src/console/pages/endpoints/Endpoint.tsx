import { Option, Schema } from "effect"
import { AsyncResult } from "effect/reactivity"
import { useEffect, useState } from "react"
import { EndpointId } from "../../../domain/Ids.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { usePageTitle } from "../../app/PageTitle.tsx"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { useKeptDialog } from "../../state/keptWork.ts"
import { useCan } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { CopyRecord } from "../../ui/CopyRecord.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { SecretDialog } from "../../ui/SecretDialog.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { useAction } from "../../ui/useAction.ts"
import { deliveryPagesAtom, deliveryQuery } from "./deliveryFilter.ts"
import { DeliveryLog } from "./DeliveryLog.tsx"
import { EditEndpoint } from "./EditEndpoint.tsx"
import { EndpointName } from "./EndpointName.tsx"
import { endpointsAtom } from "./Endpoints.tsx"
import { endpointHealthAtom, EndpointState } from "./EndpointState.tsx"
import { DisabledNotice } from "./DisabledNotice.tsx"
import { DeliveryHealth, healthAtom } from "./DeliveryHealth.tsx"
import { ReplayWindow } from "./ReplayWindow.tsx"

const isEndpointId = Schema.is(EndpointId)

/** The polling interval of this page, in milliseconds: deliveries change without user action. */
const REFRESH_INTERVAL_MS = 2_500

/** One webhook endpoint: its state and settings, delivery health, and latest deliveries. */
export default function Endpoint({ params }: PageProps) {
  const result = useAtomValue(endpointsAtom)
  const known = Option.getOrUndefined(AsyncResult.value(result))
  const id = params["id"]
  useEffect(() => {
    if (!isEndpointId(id)) return undefined
    const timer = setInterval(() => {
      if (document.hidden) return
      refresh(endpointsAtom)
      refresh(endpointHealthAtom)
      refresh(healthAtom(id))
    }, REFRESH_INTERVAL_MS)
    return () => clearInterval(timer)
  }, [id])
  if (known === undefined) return <AsyncContent atom={endpointsAtom}>{() => null}</AsyncContent>
  const endpoint = known.endpoints.find((one) => one.id === id)
  return endpoint === undefined ? (
    <EmptyState title="Endpoint not found">
      <Link to="/endpoints">All endpoints</Link>
    </EmptyState>
  ) : (
    <EndpointView endpoint={endpoint} />
  )
}

const EndpointView = ({ endpoint }: { readonly endpoint: NotificationEndpoint }) => {
  const can = useCan()
  const { id } = endpoint
  usePageTitle(endpoint.description ?? endpoint.url_hint)
  const params = { id }
  const [secret, setSecret] = useState<string>()
  const keptAs = `endpoint ${id}`
  const editing = useKeptDialog(keptAs)
  const healths = Option.getOrUndefined(AsyncResult.value(useAtomValue(endpointHealthAtom)))
  const reload = () => {
    refresh(endpointsAtom)
    refresh(endpointHealthAtom)
    refresh(deliveryPagesAtom(deliveryQuery.write(location.search, { endpoint: id })))
  }
  const test = useAction(() => apiClient.notificationEndpoints.test({ params }))
  const verify = useAction(() => apiClient.notificationEndpoints.verify({ params }))
  const enable = useAction(() =>
    apiClient.notificationEndpoints.update({ params, payload: { active: true } })
  )
  const retry = useAction(() => consoleClient.deliveries.retryNow({ params: { endpoint_id: id } }))
  const retryNow = async () => {
    if ((await retry.runResult()) === undefined) return
    showToast(
      endpoint.consecutive_failures === 0
        ? "The waiting deliveries are sent now"
        : "One waiting delivery is sent now; the others follow once it succeeds"
    )
    reload()
  }
  return (
    <div className="stack">
      <p>
        <Link to="/endpoints">← All endpoints</Link>
      </p>
      <PageHeader
        title={<EndpointName endpoint={endpoint} />}
        aside={
          can("org_config.write") ? (
            <>
              {endpoint.active ? (
                <Button
                  pending={test.pending}
                  onClick={() =>
                    void test.run().then((sent) => {
                      if (sent !== undefined)
                        showToast(
                          sent.queued ? "Test event queued" : "Test event not sent: the queue is full"
                        )
                      reload()
                      return undefined
                    })
                  }
                >
                  Send test event
                </Button>
              ) : null}
              {endpoint.verified_at === null ? (
                <Button
                  pending={verify.pending}
                  onClick={() =>
                    void verify.run().then((verified) => {
                      if (verified !== undefined) showToast("Endpoint verified")
                      reload()
                      return undefined
                    })
                  }
                >
                  Verify
                </Button>
              ) : null}
              <Button onClick={editing.open}>Edit</Button>
              <details className="dropdown more-actions">
                <summary className="button plain">More</summary>
                <div className="dropdown-body card padded">
                  <ConfirmButton
                    small={false}
                    kind="plain"
                    label="Rotate secret"
                    title="Rotate the signing secret?"
                    confirmLabel="Rotate"
                    act={() => apiClient.notificationEndpoints.rotateSecret({ params })}
                    onDone={(rotated) => setSecret(rotated.secret)}
                  >
                    <p>
                      The old and the new secret both sign deliveries for 24 hours, so that the receiver can
                      switch without rejecting any.
                    </p>
                  </ConfirmButton>
                  {endpoint.active ? (
                    <ConfirmButton
                      small={false}
                      kind="plain"
                      label="Disable"
                      title="Disable this endpoint?"
                      act={() =>
                        apiClient.notificationEndpoints.update({ params, payload: { active: false } })
                      }
                      onDone={reload}
                    >
                      <p>
                        Events that occur while it is disabled are lost for it: they cannot be replayed later.
                        Pending deliveries fail.
                      </p>
                    </ConfirmButton>
                  ) : (
                    <Button pending={enable.pending} onClick={() => void enable.run().then(() => reload())}>
                      Enable
                    </Button>
                  )}
                  <ConfirmButton
                    small={false}
                    label="Delete"
                    title="Delete this endpoint?"
                    act={() => apiClient.notificationEndpoints.remove({ params })}
                    onDone={() => {
                      refresh(endpointsAtom)
                      navigate("/endpoints")
                      showToast("Endpoint deleted")
                    }}
                  >
                    <p>No further events are sent. Deliveries in flight may still arrive.</p>
                  </ConfirmButton>
                </div>
              </details>
            </>
          ) : null
        }
      >
        <EndpointState endpoint={endpoint} health={healths?.get(id)} /> · created by{" "}
        <UntrustedText text={endpoint.created_by.name} /> · <AbsoluteTime time={endpoint.created_at} />
        <br />
        <CopyRecord id={id} of="endpoint" path={`/v1/notification-endpoints/${id}/deliveries`} />
      </PageHeader>
      <FailureNotice failure={test.failure ?? verify.failure ?? enable.failure ?? retry.failure} />
      {endpoint.cooldown_until === null ? null : (
        <p className="notice warn">
          Cooling down after {endpoint.consecutive_failures} consecutive failures. Deliveries and replays
          resume with one probe at <AbsoluteTime time={endpoint.cooldown_until} />.{" "}
          {endpoint.pending_deliveries.toLocaleString("en")}{" "}
          {endpoint.pending_deliveries === 1 ? "delivery waits" : "deliveries wait"} for it; a test event is
          sent at once.
        </p>
      )}
      {endpoint.awaits_verification ? (
        <p className="notice warn">
          Not verified: no events are delivered. Configure the receiver with the signing secret, then verify
          the endpoint.
        </p>
      ) : null}
      {endpoint.active ? null : <DisabledNotice endpoint={endpoint} />}
      <DeliveryHealth id={id} />
      <DeliveryLog
        only={id}
        endpoints={[endpoint]}
        aside={
          endpoint.active && can("org_config.write") ? (
            <>
              {endpoint.pending_deliveries === 0 ? null : (
                <Button small pending={retry.pending} onClick={() => void retryNow()}>
                  Retry {endpoint.pending_deliveries.toLocaleString("en")} waiting now
                </Button>
              )}
              <ReplayWindow id={id} onDone={reload} />
            </>
          ) : null
        }
        onChange={reload}
      />
      {editing.isOpen ? (
        <EditEndpoint
          endpoint={endpoint}
          keptAs={keptAs}
          onClose={() => {
            editing.close()
            refresh(endpointsAtom)
          }}
        />
      ) : null}
      <SecretDialog
        secret={secret}
        title="New signing secret"
        description="The previous secret also signs deliveries for 24 hours."
        onClose={() => setSecret(undefined)}
      />
    </div>
  )
}
