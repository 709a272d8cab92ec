package so.lock.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.util.List;
import so.lock.DelayedQueue;
import so.lock.LockInfo;

/** The fields of answers. */
final class Answers {
    private Answers() {}

    static JsonObject info(LockInfo info) {
        JsonObject answer = Requests.field("waiting", info.waiting());
        JsonArray holders = new JsonArray();
        for (LockInfo.Holder one : info.holders()) {
            JsonObject holder = entry(one.key(), one.owner(), one.mode());
            holder.addProperty("holds", one.holds());
            holders.add(holder);
        }
        JsonArray waiters = new JsonArray();
        for (LockInfo.Waiter one : info.waiters()) {
            JsonObject waiter = entry(one.key(), one.owner(), one.mode());
            waiter.addProperty("fair", one.fair());
            waiters.add(waiter);
        }
        answer.add("holders", holders);
        answer.add("waiters", waiters);
        return answer;
    }

    static JsonObject items(List<DelayedQueue.Element> elements) {
        JsonArray items = new JsonArray();
        for (DelayedQueue.Element element : elements) {
            JsonObject item = Requests.field("item", element.id());
            item.addProperty("value", element.value());
            items.add(item);
        }
        JsonObject answer = new JsonObject();
        answer.add("items", items);
        return answer;
    }

    private static JsonObject entry(String key, String owner, String mode) {
        JsonObject entry = Requests.field("key", key);
        entry.addProperty("owner", owner);
        entry.addProperty("mode", mode);
        return entry;
    }
}
