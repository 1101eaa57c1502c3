-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Packets of Bellwire's NICs for Wireshark. Made by `cargo xtask dissector` of docs/PROTOCOL.md; changes are made there.
local bellwire = Proto("bellwire", "Bellwire NIC-to-NIC protocol")
local f = bellwire.fields
local kinds = { [1] = "DATA", [2] = "ACK", [3] = "NACK", [4] = "HELLO", [5] = "COOKIE", [6] = "WELCOME", [7] = "REJECT", [8] = "RESET", [9] = "CLOSE", [10] = "CLOSE_ACK", [11] = "PING", [12] = "PONG" }
f.version = ProtoField.uint8("bellwire.version", "Version", base.DEC, nil, 0xf0)
f.kind = ProtoField.uint8("bellwire.kind", "Kind", base.DEC, kinds, 0x0f)
f.flags = ProtoField.uint8("bellwire.flags", "Flags", base.HEX)
f.short = ProtoField.uint16("bellwire.short", "Short")
f.word = ProtoField.uint32("bellwire.word", "Word")
f.session = ProtoField.uint64("bellwire.session", "Receiver's session", base.HEX)
f.frame = ProtoField.bytes("bellwire.frame", "Frame")
f.sealed = ProtoField.bytes("bellwire.sealed", "Encrypted")
f.bitmap = ProtoField.bytes("bellwire.ack.bitmap", "bitmap")
f.search = ProtoField.bytes("bellwire.search", "Search for a NIC")
f.flag_ack_valid = ProtoField.bool("bellwire.flags.ack_valid", "ACK_VALID: the acknowledgement is valid", 8, nil, 0x01)
f.flag_echo_valid = ProtoField.bool("bellwire.flags.echo_valid", "ECHO_VALID: echo and echo delay are valid", 8, nil, 0x02)
f.flag_ack_now = ProtoField.bool("bellwire.flags.ack_now", "ACK_NOW: please acknowledge at once", 8, nil, 0x04)
f.flag_retransmitted = ProtoField.bool("bellwire.flags.retransmitted", "RETRANSMITTED: not the first transmission", 8, nil, 0x08)
f.flag_ordered = ProtoField.bool("bellwire.flags.ordered", "ORDERED: deliver after all earlier packets", 8, nil, 0x10)
f.flag_checksum = ProtoField.bool("bellwire.flags.checksum", "CHECKSUM: a checksum follows the packet", 8, nil, 0x20)
f.flag_auth = ProtoField.bool("bellwire.flags.auth", "AUTH: the packet is authenticated", 8, nil, 0x80)
local flags = { f.flag_ack_valid, f.flag_echo_valid, f.flag_ack_now, f.flag_retransmitted, f.flag_ordered, f.flag_checksum, f.flag_auth }
local layouts = {}
layouts[1] = { bytes = 32, short = "stream_back", word = "packet number" }
f.data_ack = ProtoField.uint32("bellwire.data.ack", "ack")
table.insert(layouts[1], { 16, 4, f.data_ack, true })
f.data_timestamp = ProtoField.uint32("bellwire.data.timestamp", "timestamp")
table.insert(layouts[1], { 20, 4, f.data_timestamp, true })
f.data_echo = ProtoField.uint32("bellwire.data.echo", "echo")
table.insert(layouts[1], { 24, 4, f.data_echo, true })
f.data_echo_delay = ProtoField.uint16("bellwire.data.echo_delay", "echo delay")
table.insert(layouts[1], { 28, 2, f.data_echo_delay, true })
layouts[2] = { bytes = 24, short = "words of the bitmap", word = "cumulative acknowledgement" }
f.ack_echo = ProtoField.uint32("bellwire.ack.echo", "echo")
table.insert(layouts[2], { 16, 4, f.ack_echo, true })
f.ack_echo_delay = ProtoField.uint16("bellwire.ack.echo_delay", "echo delay")
table.insert(layouts[2], { 20, 2, f.ack_echo_delay, true })
layouts[3] = { bytes = 24, short = "reason", word = "packet number" }
f.nack_echo = ProtoField.uint32("bellwire.nack.echo", "echo")
table.insert(layouts[3], { 16, 4, f.nack_echo, true })
f.nack_frames_consumed = ProtoField.uint16("bellwire.nack.frames_consumed", "frames consumed")
table.insert(layouts[3], { 20, 2, f.nack_frames_consumed, true })
layouts[4] = { bytes = 256, short = "0", word = "initiator's timestamp" }
f.hello_nic_id = ProtoField.bytes("bellwire.hello.nic_id", "NIC id")
table.insert(layouts[4], { 16, 16, f.hello_nic_id, false })
f.hello_boot = ProtoField.uint64("bellwire.hello.boot", "boot", base.HEX)
table.insert(layouts[4], { 32, 8, f.hello_boot, true })
f.hello_nonce = ProtoField.uint64("bellwire.hello.nonce", "nonce", base.HEX)
table.insert(layouts[4], { 40, 8, f.hello_nonce, true })
f.hello_initiator_s_session = ProtoField.uint64("bellwire.hello.initiator_s_session", "initiator's session", base.HEX)
table.insert(layouts[4], { 48, 8, f.hello_initiator_s_session, true })
f.hello_attempt = ProtoField.uint64("bellwire.hello.attempt", "attempt", base.HEX)
table.insert(layouts[4], { 56, 8, f.hello_attempt, true })
f.hello_features = ProtoField.uint64("bellwire.hello.features", "features", base.HEX)
table.insert(layouts[4], { 64, 8, f.hello_features, true })
f.hello_largest_datagram = ProtoField.uint32("bellwire.hello.largest_datagram", "largest datagram")
table.insert(layouts[4], { 72, 4, f.hello_largest_datagram, true })
f.hello_first_packet_number = ProtoField.uint32("bellwire.hello.first_packet_number", "first packet number")
table.insert(layouts[4], { 76, 4, f.hello_first_packet_number, true })
f.hello_room = ProtoField.uint32("bellwire.hello.room", "room")
table.insert(layouts[4], { 80, 4, f.hello_room, true })
f.hello_lowest_and_highest_version = ProtoField.uint16("bellwire.hello.lowest_and_highest_version", "lowest and highest version")
table.insert(layouts[4], { 84, 2, f.hello_lowest_and_highest_version, true })
f.hello_cookie = ProtoField.bytes("bellwire.hello.cookie", "cookie")
table.insert(layouts[4], { 88, 16, f.hello_cookie, false })
layouts[5] = { bytes = 64, short = "0", word = "the HELLO's timestamp" }
f.cookie_nic_id = ProtoField.bytes("bellwire.cookie.nic_id", "NIC id")
table.insert(layouts[5], { 16, 16, f.cookie_nic_id, false })
f.cookie_boot = ProtoField.uint64("bellwire.cookie.boot", "boot", base.HEX)
table.insert(layouts[5], { 32, 8, f.cookie_boot, true })
f.cookie_nonce = ProtoField.uint64("bellwire.cookie.nonce", "nonce", base.HEX)
table.insert(layouts[5], { 40, 8, f.cookie_nonce, true })
f.cookie_cookie = ProtoField.bytes("bellwire.cookie.cookie", "cookie")
table.insert(layouts[5], { 48, 16, f.cookie_cookie, false })
layouts[6] = { bytes = 88, short = "version", word = "the HELLO's timestamp" }
f.welcome_nic_id = ProtoField.bytes("bellwire.welcome.nic_id", "NIC id")
table.insert(layouts[6], { 16, 16, f.welcome_nic_id, false })
f.welcome_boot = ProtoField.uint64("bellwire.welcome.boot", "boot", base.HEX)
table.insert(layouts[6], { 32, 8, f.welcome_boot, true })
f.welcome_nonce = ProtoField.uint64("bellwire.welcome.nonce", "nonce", base.HEX)
table.insert(layouts[6], { 40, 8, f.welcome_nonce, true })
f.welcome_responder_s_session = ProtoField.uint64("bellwire.welcome.responder_s_session", "responder's session", base.HEX)
table.insert(layouts[6], { 48, 8, f.welcome_responder_s_session, true })
f.welcome_attempt = ProtoField.uint64("bellwire.welcome.attempt", "attempt", base.HEX)
table.insert(layouts[6], { 56, 8, f.welcome_attempt, true })
f.welcome_features = ProtoField.uint64("bellwire.welcome.features", "features", base.HEX)
table.insert(layouts[6], { 64, 8, f.welcome_features, true })
f.welcome_largest_datagram = ProtoField.uint32("bellwire.welcome.largest_datagram", "largest datagram")
table.insert(layouts[6], { 72, 4, f.welcome_largest_datagram, true })
f.welcome_first_packet_number = ProtoField.uint32("bellwire.welcome.first_packet_number", "first packet number")
table.insert(layouts[6], { 76, 4, f.welcome_first_packet_number, true })
f.welcome_room = ProtoField.uint32("bellwire.welcome.room", "room")
table.insert(layouts[6], { 80, 4, f.welcome_room, true })
layouts[7] = { bytes = 24, short = "reason", word = "0" }
f.reject_nonce = ProtoField.uint64("bellwire.reject.nonce", "nonce", base.HEX)
table.insert(layouts[7], { 16, 8, f.reject_nonce, true })
layouts[8] = { bytes = 24, short = "kind of its cause", word = "the cause's word" }
f.reset_the_session_that_is_not_known = ProtoField.uint64("bellwire.reset.the_session_that_is_not_known", "the session that is not known", base.HEX)
table.insert(layouts[8], { 16, 8, f.reset_the_session_that_is_not_known, true })
layouts[9] = { bytes = 32, short = "0", word = "next packet number" }
f.close_sender_s_session = ProtoField.uint64("bellwire.close.sender_s_session", "sender's session", base.HEX)
table.insert(layouts[9], { 16, 8, f.close_sender_s_session, true })
layouts[10] = { bytes = 16, short = "0", word = "the CLOSE's word" }
layouts[11] = { bytes = 32, short = "0", word = "token" }
f.ping_timestamp = ProtoField.uint32("bellwire.ping.timestamp", "timestamp")
table.insert(layouts[11], { 16, 4, f.ping_timestamp, true })
layouts[12] = { bytes = 24, short = "0", word = "the PING's token" }
f.pong_echo = ProtoField.uint32("bellwire.pong.echo", "echo")
table.insert(layouts[12], { 16, 4, f.pong_echo, true })
f.pong_length_of_the_ping = ProtoField.uint32("bellwire.pong.length_of_the_ping", "length of the PING")
table.insert(layouts[12], { 20, 4, f.pong_length_of_the_ping, true })

local AUTH, HEADER, DATA, ACK = 0x80, 16, 1, 2

local function is_packet(buffer, at)
    local left = buffer:len() - at
    if left < HEADER then return false end
    local first, given = buffer(at, 1):uint(), buffer(at + 1, 1):uint()
    local layout = layouts[first % 16]
    if math.floor(first / 16) ~= 1 or not layout or math.floor(given / 64) % 2 ~= 0 then return false end
    return left >= (given >= AUTH and HEADER or layout.bytes)
end

-- One packet; where the next one begins, if the network has joined some.
local function packet(buffer, at, tree, said)
    local first, given = buffer(at, 1):uint(), buffer(at + 1, 1):uint()
    local kind, is_sealed = first % 16, given >= AUTH
    local layout = layouts[kind]
    local head = tree:add(bellwire, buffer(at))
    head:add(f.version, buffer(at, 1))
    head:add(f.kind, buffer(at, 1))
    local bits = head:add(f.flags, buffer(at + 1, 1))
    for _, flag in ipairs(flags) do bits:add(flag, buffer(at + 1, 1)) end
    head:add_le(f.short, buffer(at + 2, 2)):append_text(" (" .. layout.short .. ")")
    head:add_le(f.word, buffer(at + 4, 4)):append_text(" (" .. layout.word .. ")")
    head:add_le(f.session, buffer(at + 8, 8))
    local text = kinds[kind] .. " " .. buffer(at + 4, 4):le_uint()
    if math.floor(given / 8) % 2 == 1 and kind == DATA then text = text .. " again" end
    table.insert(said, is_sealed and text .. " sealed" or text)
    local clear = is_sealed and (kind == DATA and 32 or HEADER) or buffer:len() - at
    for _, field in ipairs(layout) do
        local from, bytes, proto, is_number = table.unpack(field)
        if from + bytes <= clear and at + from + bytes <= buffer:len() then
            local range = buffer(at + from, bytes)
            if is_number then head:add_le(proto, range) else head:add(proto, range) end
        end
    end
    local next_at = at + layout.bytes
    if is_sealed then
        if at + clear < buffer:len() then head:add(f.sealed, buffer(at + clear)) end
        return buffer:len()
    elseif kind == DATA then
        while next_at + 4 <= buffer:len() do
            local words = buffer(next_at, 1):uint()
            if words < 1 or words > 8 then break end
            local bytes = 4 + 8 * words + buffer(next_at + 2, 2):le_uint()
            if next_at + bytes > buffer:len() then bytes = buffer:len() - next_at end
            head:add(f.frame, buffer(next_at, bytes)):prepend_text(words .. " words of head: ")
            next_at = next_at + bytes
        end
    elseif kind == ACK then
        local bytes = math.min(8 * buffer(at + 2, 2):le_uint(), buffer:len() - next_at)
        if bytes > 0 then head:add(f.bitmap, buffer(next_at, bytes)) end
        next_at = next_at + bytes
    else
        next_at = buffer:len()
    end
    return next_at
end

function bellwire.dissector(buffer, pinfo, tree)
    local at, said = 0, {}
    if buffer:len() > 1 and buffer(0, 1):uint() >= 0xf1 and buffer(0, 1):uint() <= 0xf5 then
        tree:add(bellwire, buffer()):add(f.search, buffer())
        table.insert(said, "search for a NIC")
        at = buffer:len()
    end
    while is_packet(buffer, at) do at = packet(buffer, at, tree, said) end
    if #said == 0 then return 0 end
    pinfo.cols.protocol = "Bellwire"
    pinfo.cols.info = table.concat(said, ", ")
    return at
end

-- NICs have ports of their own, so a packet is known by how it begins; the directory has this port.
bellwire:register_heuristic("udp", function(buffer, pinfo, tree)
    return is_packet(buffer, 0) and bellwire.dissector(buffer, pinfo, tree) > 0
end)
DissectorTable.get("udp.port"):add(7118, bellwire)
