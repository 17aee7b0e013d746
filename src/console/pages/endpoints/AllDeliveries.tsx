import { useRefreshing } from "../../state/useRefreshing.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { DeliveryLog } from "./DeliveryLog.tsx"
import { endpointsAtom } from "./Endpoints.tsx"

/** The deliveries of all webhook endpoints. */
export default function AllDeliveries() {
  useRefreshing(endpointsAtom)
  return (
    <>
      <PageHeader title="Deliveries">
        Events on their way to the webhook endpoints of the organization, for the last 30 days.
      </PageHeader>
      <AsyncContent atom={endpointsAtom}>
        {({ endpoints }) => <DeliveryLog endpoints={endpoints} />}
      </AsyncContent>
    </>
  )
}
