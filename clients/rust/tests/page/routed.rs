use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, Slot, SlotAddr};

/// To the master of this key, whatever the command's first argument is.
pub fn to_master_of(key: &str) -> RoutingInfo {
    let route = Route::with_slot(Slot::for_key(key), SlotAddr::Master);
    RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(route))
}
