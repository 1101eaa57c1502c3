/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sisci_api.h - SISCI: memory of other processes in one's own, remote interrupts, DMA queues.
 * Link with -lsisci.  Each call but those without one ends in flags and a place for the error,
 * which is always written. If that place is NULL, the call is done all the same.
 * SCI_ERR_ILLEGAL_PARAMETER (a handle that names nothing, a NULL pointer), SCI_ERR_ILLEGAL_FLAG,
 * SCI_ERR_FLAG_NOT_IMPLEMENTED, SCI_ERR_NOT_SUPPORTED (flags of hardware),
 * SCI_ERR_NOT_INITIALIZED, SCI_ERR_NO_SUCH_ADAPTERNO and SCI_ERR_ILLEGAL_ADAPTERNO (the only
 * adapter is 0) and SCI_ERR_NOSPC come from every call that can meet their cause, and are not
 * repeated below. Timeouts are in milliseconds. All calls may be made by several threads.
 */
#ifndef _SISCI_API_H
#define _SISCI_API_H

#include "sisci_error.h"
#include "sisci_types.h"

/* The names in the library, as programs of other implementations expect them; the plain names are
there too. */
#if defined(_REENTRANT)
#define _SISCI_EXPANDE_FUNCTION_NAME(name) _SISCI_PUBLIC_FUNC_MT_##name
#else
#define _SISCI_EXPANDE_FUNCTION_NAME(name) _SISCI_PUBLIC_FUNC_ST_##name
#endif
#define SCIInitialize _SISCI_EXPANDE_FUNCTION_NAME(SCIInitialize)
#define SCITerminate _SISCI_EXPANDE_FUNCTION_NAME(SCITerminate)
#define SCIOpen _SISCI_EXPANDE_FUNCTION_NAME(SCIOpen)
#define SCIClose _SISCI_EXPANDE_FUNCTION_NAME(SCIClose)
#define SCIGetErrorString _SISCI_EXPANDE_FUNCTION_NAME(SCIGetErrorString)
#define SCIQuery _SISCI_EXPANDE_FUNCTION_NAME(SCIQuery)
#define SCIProbeNode _SISCI_EXPANDE_FUNCTION_NAME(SCIProbeNode)
#define SCIGetLocalNodeId _SISCI_EXPANDE_FUNCTION_NAME(SCIGetLocalNodeId)
#define SCIGetNodeIdByAdapterName _SISCI_EXPANDE_FUNCTION_NAME(SCIGetNodeIdByAdapterName)
#define SCICreateSegment _SISCI_EXPANDE_FUNCTION_NAME(SCICreateSegment)
#define SCIAttachLocalSegment _SISCI_EXPANDE_FUNCTION_NAME(SCIAttachLocalSegment)
#define SCIShareSegment _SISCI_EXPANDE_FUNCTION_NAME(SCIShareSegment)
#define SCIRegisterSegmentMemory _SISCI_EXPANDE_FUNCTION_NAME(SCIRegisterSegmentMemory)
#define SCIPrepareSegment _SISCI_EXPANDE_FUNCTION_NAME(SCIPrepareSegment)
#define SCISetSegmentAvailable _SISCI_EXPANDE_FUNCTION_NAME(SCISetSegmentAvailable)
#define SCISetSegmentUnavailable _SISCI_EXPANDE_FUNCTION_NAME(SCISetSegmentUnavailable)
#define SCIRemoveSegment _SISCI_EXPANDE_FUNCTION_NAME(SCIRemoveSegment)
#define SCIWaitForLocalSegmentEvent _SISCI_EXPANDE_FUNCTION_NAME(SCIWaitForLocalSegmentEvent)
#define SCIGetLocalSegmentId _SISCI_EXPANDE_FUNCTION_NAME(SCIGetLocalSegmentId)
#define SCIGetLocalSegmentSize _SISCI_EXPANDE_FUNCTION_NAME(SCIGetLocalSegmentSize)
#define SCIConnectSegment _SISCI_EXPANDE_FUNCTION_NAME(SCIConnectSegment)
#define SCIDisconnectSegment _SISCI_EXPANDE_FUNCTION_NAME(SCIDisconnectSegment)
#define SCIWaitForRemoteSegmentEvent _SISCI_EXPANDE_FUNCTION_NAME(SCIWaitForRemoteSegmentEvent)
#define SCIGetRemoteSegmentId _SISCI_EXPANDE_FUNCTION_NAME(SCIGetRemoteSegmentId)
#define SCIGetRemoteSegmentSize _SISCI_EXPANDE_FUNCTION_NAME(SCIGetRemoteSegmentSize)
#define SCIMapLocalSegment _SISCI_EXPANDE_FUNCTION_NAME(SCIMapLocalSegment)
#define SCIMapRemoteSegment _SISCI_EXPANDE_FUNCTION_NAME(SCIMapRemoteSegment)
#define SCIUnmapSegment _SISCI_EXPANDE_FUNCTION_NAME(SCIUnmapSegment)
#define SCICacheSync _SISCI_EXPANDE_FUNCTION_NAME(SCICacheSync)
#define SCICreateMapSequence _SISCI_EXPANDE_FUNCTION_NAME(SCICreateMapSequence)
#define SCIRemoveSequence _SISCI_EXPANDE_FUNCTION_NAME(SCIRemoveSequence)
#define SCIStartSequence _SISCI_EXPANDE_FUNCTION_NAME(SCIStartSequence)
#define SCICheckSequence _SISCI_EXPANDE_FUNCTION_NAME(SCICheckSequence)
#define SCIStoreBarrier _SISCI_EXPANDE_FUNCTION_NAME(SCIStoreBarrier)
#define SCIFlushReadBuffers _SISCI_EXPANDE_FUNCTION_NAME(SCIFlushReadBuffers)
#define SCIFlush _SISCI_EXPANDE_FUNCTION_NAME(SCIFlush)
#define SCIMemCpy _SISCI_EXPANDE_FUNCTION_NAME(SCIMemCpy)
#define SCIMemCopy _SISCI_EXPANDE_FUNCTION_NAME(SCIMemCopy)
#define SCIMemWrite _SISCI_EXPANDE_FUNCTION_NAME(SCIMemWrite)
#define SCICreateDMAQueue _SISCI_EXPANDE_FUNCTION_NAME(SCICreateDMAQueue)
#define SCIRemoveDMAQueue _SISCI_EXPANDE_FUNCTION_NAME(SCIRemoveDMAQueue)
#define SCIEnqueueDMATransfer _SISCI_EXPANDE_FUNCTION_NAME(SCIEnqueueDMATransfer)
#define SCIPostDMAQueue _SISCI_EXPANDE_FUNCTION_NAME(SCIPostDMAQueue)
#define SCIAbortDMAQueue _SISCI_EXPANDE_FUNCTION_NAME(SCIAbortDMAQueue)
#define SCIResetDMAQueue _SISCI_EXPANDE_FUNCTION_NAME(SCIResetDMAQueue)
#define SCIDMAQueueState _SISCI_EXPANDE_FUNCTION_NAME(SCIDMAQueueState)
#define SCIWaitForDMAQueue _SISCI_EXPANDE_FUNCTION_NAME(SCIWaitForDMAQueue)
#define SCIStartDmaTransfer _SISCI_EXPANDE_FUNCTION_NAME(SCIStartDmaTransfer)
#define SCIStartDmaTransferVec _SISCI_EXPANDE_FUNCTION_NAME(SCIStartDmaTransferVec)
#define SCIStartDmaTransferMem _SISCI_EXPANDE_FUNCTION_NAME(SCIStartDmaTransferMem)
#define SCITransferBlock _SISCI_EXPANDE_FUNCTION_NAME(SCITransferBlock)
#define SCITransferBlockAsync _SISCI_EXPANDE_FUNCTION_NAME(SCITransferBlockAsync)
#define SCIWaitForBlockTransfer _SISCI_EXPANDE_FUNCTION_NAME(SCIWaitForBlockTransfer)
#define SCIAbortBlockTransfer _SISCI_EXPANDE_FUNCTION_NAME(SCIAbortBlockTransfer)
#define SCICreateInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCICreateInterrupt)
#define SCIRemoveInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCIRemoveInterrupt)
#define SCIWaitForInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCIWaitForInterrupt)
#define SCIConnectInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCIConnectInterrupt)
#define SCIDisconnectInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCIDisconnectInterrupt)
#define SCITriggerInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCITriggerInterrupt)
#define SCICreateDataInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCICreateDataInterrupt)
#define SCIRemoveDataInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCIRemoveDataInterrupt)
#define SCIWaitForDataInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCIWaitForDataInterrupt)
#define SCIConnectDataInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCIConnectDataInterrupt)
#define SCIDisconnectDataInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCIDisconnectDataInterrupt)
#define SCITriggerDataInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCITriggerDataInterrupt)
#define SCIAttachPhysicalMemory _SISCI_EXPANDE_FUNCTION_NAME(SCIAttachPhysicalMemory)
#define SCIConnectSCISpace _SISCI_EXPANDE_FUNCTION_NAME(SCIConnectSCISpace)
#define SCIGetCSRRegister _SISCI_EXPANDE_FUNCTION_NAME(SCIGetCSRRegister)
#define SCISetCSRRegister _SISCI_EXPANDE_FUNCTION_NAME(SCISetCSRRegister)
#define SCIGetLocalCSR _SISCI_EXPANDE_FUNCTION_NAME(SCIGetLocalCSR)
#define SCISetLocalCSR _SISCI_EXPANDE_FUNCTION_NAME(SCISetLocalCSR)
#define SCIRegisterInterruptFlag _SISCI_EXPANDE_FUNCTION_NAME(SCIRegisterInterruptFlag)
#define SCIEnableConditionalInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCIEnableConditionalInterrupt)
#define SCIDisableConditionalInterrupt _SISCI_EXPANDE_FUNCTION_NAME(SCIDisableConditionalInterrupt)
#define SCIGetConditionalInterruptTrigCounter _SISCI_EXPANDE_FUNCTION_NAME(SCIGetConditionalInterruptTrigCounter)
#define SCIphDmaEnqueue _SISCI_EXPANDE_FUNCTION_NAME(SCIphDmaEnqueue)
#define SCIphDmaStart _SISCI_EXPANDE_FUNCTION_NAME(SCIphDmaStart)
#define SCIRegisterPCIeRequester _SISCI_EXPANDE_FUNCTION_NAME(SCIRegisterPCIeRequester)
#define SCIUnregisterPCIeRequester _SISCI_EXPANDE_FUNCTION_NAME(SCIUnregisterPCIeRequester)
#define SCIBorrowDevice _SISCI_EXPANDE_FUNCTION_NAME(SCIBorrowDevice)
#define SCIReturnDevice _SISCI_EXPANDE_FUNCTION_NAME(SCIReturnDevice)
#define SCIConnectDeviceSegment _SISCI_EXPANDE_FUNCTION_NAME(SCIConnectDeviceSegment)
#define SCICreateDeviceSegment _SISCI_EXPANDE_FUNCTION_NAME(SCICreateDeviceSegment)
#define SCIMapLocalSegmentForDevice _SISCI_EXPANDE_FUNCTION_NAME(SCIMapLocalSegmentForDevice)
#define SCIMapRemoteSegmentForDevice _SISCI_EXPANDE_FUNCTION_NAME(SCIMapRemoteSegmentForDevice)
#define SCIGetDeviceList _SISCI_EXPANDE_FUNCTION_NAME(SCIGetDeviceList)
#define SCIGetFabricDeviceId _SISCI_EXPANDE_FUNCTION_NAME(SCIGetFabricDeviceId)

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------- start */

/* Starts the library, before any other call; in the child of a fork too, which has nothing of its
parent's. Starts are counted.
SCI_ERR_OK; SCI_ERR_ILLEGAL_PARAMETER: a variable of the environment means nothing (standard
error has the reason). */
void SCIInitialize(unsigned int flags, sci_error_t *error);

/* Ends a start. What the program has not removed stays until the process ends. */
void SCITerminate(void);

/* Opens a virtual device, to which all that is made later belongs.
  flags  SCI_FLAG_THREAD_SAFE has no effect: all calls are.
SCI_ERR_OK */
void SCIOpen(sci_desc_t *sd, unsigned int flags, sci_error_t *error);

/* Closes it.
SCI_ERR_OK; SCI_ERR_BUSY: something that belongs to it is still there. */
void SCIClose(sci_desc_t sd, unsigned int flags, sci_error_t *error);

/* A sentence about an error; never NULL. */
const char *SCIGetErrorString(sci_error_t error);

/* Asks about the library, the adapter, or an object; data points to the structure of the command
(sisci_types.h).
SCI_ERR_OK; SCI_ERR_ILLEGAL_QUERY: no such command or subcommand. SCI_ERR_OUT_OF_RANGE: the
string is longer than its place. SCI_ERR_NOT_SUPPORTED: addresses of a bus. */
void SCIQuery(unsigned int command, void *data, unsigned int flags, sci_error_t *error);

/* Whether a node answers: 1 or 0. A node answers while a process of it has started the library.
SCI_ERR_OK; SCI_ERR_NO_SUCH_NODEID: no address is known for it. SCI_ERR_NODE_NOT_RESPONDING:
nobody there. SCI_ERR_ILLEGAL_NODEID: not 1 to 65535. */
int SCIProbeNode(sci_desc_t sd, unsigned int localAdapterNo, unsigned int nodeId, unsigned int flags, sci_error_t *error);

/* The id of this node. sisci(3) says what it is derived from.
SCI_ERR_OK */
void SCIGetLocalNodeId(unsigned int adapterNo, unsigned int *nodeId, unsigned int flags, sci_error_t *error);

/* The node of an address: 10.0.0.1, fd00::5. Addresses are the names that adapters have here.
  type  where the kind of its DMA goes, SCI_DMA_TYPE_SYSTEM; may be NULL.
SCI_ERR_OK; SCI_ERR_NO_SUCH_NODEID: no node is known for it. */
void SCIGetNodeIdByAdapterName(char *name, unsigned int *nodeId, dis_dma_type_t *type, unsigned int flags, sci_error_t *error);

/* -------------------- local segments */

/* Creates a segment: memory that others may connect to once it is prepared and available. It is
all zero.
  segmentId  the id, which a node has once.
  callback   with SCI_FLAG_USE_CALLBACK, is told who connects, leaves and is lost.
  flags      SCI_FLAG_EMPTY: without memory, until SCIRegisterSegmentMemory. SCI_FLAG_PRIVATE:
             without id; nobody connects. SCI_FLAG_DMA_SOURCE_ONLY: never available.
             SCI_FLAG_AUTO_ID: the library chooses the id (SCIGetLocalSegmentId).
SCI_ERR_OK; SCI_ERR_SEGMENTID_USED: another segment of the node has the id.
SCI_ERR_SIZE_ALIGNMENT: no bytes. */
void SCICreateSegment(sci_desc_t sd, sci_local_segment_t *segment, unsigned int segmentId, size_t size,
                      sci_cb_local_segment_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);

/* Makes this process a second owner of a segment that another process of the node shares. It can
be mapped here, and be an end of transfers.
  size  where its size goes; may be NULL.
SCI_ERR_OK; SCI_ERR_NO_SUCH_SEGMENT; SCI_ERR_ACCESS: not shared. SCI_ERR_CONNECTION_REFUSED: of
another user. */
void SCIAttachLocalSegment(sci_desc_t sd, sci_local_segment_t *segment, unsigned int segmentId, size_t *size,
                           sci_cb_local_segment_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);

/* Lets other processes of this node attach to the segment.
SCI_ERR_OK; SCI_ERR_ILLEGAL_OPERATION: private, or without memory. */
void SCIShareSegment(sci_local_segment_t segment, unsigned int flags, sci_error_t *error);

/* The program's own pages become the memory of an empty segment, where they lie: those that
connect map them. They are private again when the segment is removed, and must stay mapped until
then. No thread may write them during the two calls.
  size   at least the segment's; a multiple of the page size, as address is.
  flags  SCI_FLAG_LOCK_USER_MEM has no effect.
SCI_ERR_OK; SCI_ERR_ILLEGAL_ADDRESS: no private memory of the program. SCI_ERR_OFFSET_ALIGNMENT,
SCI_ERR_SIZE_ALIGNMENT: parts of pages. SCI_ERR_OUT_OF_RANGE: too short.
SCI_ERR_ILLEGAL_OPERATION: not empty, or prepared. */
void SCIRegisterSegmentMemory(void *address, size_t size, sci_local_segment_t segment, unsigned int flags, sci_error_t *error);

/* Makes the segment ready for the adapter.
SCI_ERR_OK; SCI_ERR_ILLEGAL_OPERATION: without memory, or prepared already. */
void SCIPrepareSegment(sci_local_segment_t segment, unsigned int localAdapterNo, unsigned int flags, sci_error_t *error);

/* Lets others connect: processes of the same user, or of all with BELLWIRE_SISCI=users=all. Who
connects may read and write all of it.
SCI_ERR_OK; SCI_ERR_SEGMENT_NOT_PREPARED; SCI_ERR_ILLEGAL_OPERATION: available already, or one
that never is. */
void SCISetSegmentAvailable(sci_local_segment_t segment, unsigned int localAdapterNo, unsigned int flags, sci_error_t *error);

/* Lets no others connect.
  flags  SCI_FLAG_NOTIFY: those that are connected get SCI_CB_DISCONNECT, and should leave.
         SCI_FLAG_FORCE_DISCONNECT: their connections end.
SCI_ERR_OK; SCI_ERR_ILLEGAL_OPERATION: not available. */
void SCISetSegmentUnavailable(sci_local_segment_t segment, unsigned int localAdapterNo, unsigned int flags, sci_error_t *error);

/* Removes the segment; connections that have not mapped it end. Waits half a second for those that
have: they may be leaving.
  flags  SCI_FLAG_FORCE_REMOVE: also ends connections that have mapped it. They keep their maps,
         which nobody else sees any more.
SCI_ERR_OK; SCI_ERR_BUSY: mapped, here or by a connection. */
void SCIRemoveSegment(sci_local_segment_t segment, unsigned int flags, sci_error_t *error);

/* Waits for the next event, which it returns (0 with an error). Up to 1024 events are kept.
  sourceNodeId, localAdapterNo  where the node of the other process goes, and the adapter; may
                                be NULL.
SCI_ERR_OK; SCI_ERR_TIMEOUT; SCI_ERR_CANCELLED: removed meanwhile. SCI_ERR_ILLEGAL_OPERATION: a
callback takes the events. */
sci_segment_cb_reason_t SCIWaitForLocalSegmentEvent(sci_local_segment_t segment, unsigned int *sourceNodeId,
                                                    unsigned int *localAdapterNo, unsigned int timeout, unsigned int flags,
                                                    sci_error_t *error);

/* The id and the size of a segment; 0 if the handle names nothing. */
unsigned int SCIGetLocalSegmentId(sci_local_segment_t segment);
size_t SCIGetLocalSegmentSize(sci_local_segment_t segment);

/* -------------------- remote segments */

/* Connects to a segment of another process, or of this one. Waits as long as it is told for a
segment that is not there yet, or not available yet. With SCI_FLAG_ASYNCHRONOUS_CONNECT it returns
at once, and the library goes on as long as it is told: the first event is SCI_CB_CONNECT, whose
status says whether the connection stands. Until then other calls say SCI_ERR_NOT_CONNECTED.
  callback  with SCI_FLAG_USE_CALLBACK, is told that the owner asks to leave, ends the
            connection, or is lost.
SCI_ERR_OK; SCI_ERR_NO_SUCH_SEGMENT; SCI_ERR_CONNECTION_REFUSED: not available, or of another
user. SCI_ERR_TIMEOUT: the owner does not answer. SCI_ERR_NO_SUCH_NODEID,
SCI_ERR_NODE_NOT_RESPONDING, SCI_ERR_ILLEGAL_NODEID: as SCIProbeNode. */
void SCIConnectSegment(sci_desc_t sd, sci_remote_segment_t *segment, unsigned int nodeId, unsigned int segmentId,
                       unsigned int localAdapterNo, sci_cb_remote_segment_t callback, void *callbackArg, unsigned int timeout,
                       unsigned int flags, sci_error_t *error);

/* Leaves; the owner gets SCI_CB_DISCONNECT. (From a process that ends without this, it gets
SCI_CB_LOST.)
SCI_ERR_OK; SCI_ERR_BUSY: mapped. */
void SCIDisconnectSegment(sci_remote_segment_t segment, unsigned int flags, sci_error_t *error);

/* Waits for the next event, which it returns (0 with an error).
  status  where the error of the event goes; may be NULL.
SCI_ERR_OK; SCI_ERR_TIMEOUT; SCI_ERR_CANCELLED: disconnected meanwhile.
SCI_ERR_ILLEGAL_OPERATION: a callback takes the events. */
sci_segment_cb_reason_t SCIWaitForRemoteSegmentEvent(sci_remote_segment_t segment, sci_error_t *status, unsigned int timeout,
                                                     unsigned int flags, sci_error_t *error);

/* The id and the size of a segment; 0 if the handle names nothing. */
unsigned int SCIGetRemoteSegmentId(sci_remote_segment_t segment);
size_t SCIGetRemoteSegmentSize(sci_remote_segment_t segment);

/* -------------------- maps */

/* Maps a part of a local segment, and returns its address (NULL with an error). A store beyond the
last page of a map faults, unless its address was chosen.
  offset  a multiple of 8.
  addr    with SCI_FLAG_FIXED_MAP_ADDR, where it is to be; else no matter.
  flags   SCI_FLAG_FIXED_MAP_ADDR, SCI_FLAG_READONLY_MAP; hints to adapters have no effect.
SCI_ERR_OK; SCI_ERR_OUT_OF_RANGE; SCI_ERR_OFFSET_ALIGNMENT; SCI_ERR_SIZE_ALIGNMENT: no bytes.
SCI_ERR_ILLEGAL_ADDRESS: taken, or another place in its page than the offset has.
SCI_ERR_ILLEGAL_OPERATION: an empty segment. */
void *SCIMapLocalSegment(sci_local_segment_t segment, sci_map_t *map, size_t offset, size_t size, void *addr, unsigned int flags,
                         sci_error_t *error);

/* Maps a part of a remote segment: the owner's memory itself. Stores are visible to the owner at
once, in program order; the map stays usable, but alone, when the owner is gone.
  flags  those of SCIMapLocalSegment, and one of these, which interrupt the owner some 100 us
         after a store, or with a flush (SCIRegisterInterruptFlag):
         SCI_FLAG_CONDITIONAL_INTERRUPT_MAP: stores trigger conditional flags; loads have no
         meaning. SCI_FLAG_UNCONDITIONAL_DATA_INTERRUPT_MAP: stores are stores.
SCI_ERR_NOT_SUPPORTED: stores that interrupt cannot be heard of (no userfaultfd).
SCI_ERR_OK; SCI_ERR_NOT_CONNECTED, SCI_ERR_NODE_NOT_RESPONDING: the connection has ended.
Otherwise as SCIMapLocalSegment. */
volatile void *SCIMapRemoteSegment(sci_remote_segment_t segment, sci_map_t *map, size_t offset, size_t size, void *addr,
                                   unsigned int flags, sci_error_t *error);

/* Unmaps it. Sequences on it stay until they are removed.
SCI_ERR_OK */
void SCIUnmapSegment(sci_map_t map, unsigned int flags, sci_error_t *error);

/* Flushes caches; here stores are visible without.
SCI_ERR_OK; SCI_ERR_OUT_OF_RANGE: outside the map. */
void SCICacheSync(sci_map_t map, void *addr, size_t length, unsigned int flags, sci_error_t *error);

/* -------------------- sequences and copies */

/* A sequence tells whether stores through a map have arrived.
SCI_ERR_OK */
void SCICreateMapSequence(sci_map_t map, sci_sequence_t *sequence, unsigned int flags, sci_error_t *error);

/* Removes it.
SCI_ERR_OK */
void SCIRemoveSequence(sci_sequence_t sequence, unsigned int flags, sci_error_t *error);

/* Starts a sequence. SCI_SEQ_OK, or SCI_SEQ_NOT_RETRIABLE if the connection has ended.
SCI_ERR_OK */
sci_sequence_status_t SCIStartSequence(sci_sequence_t sequence, unsigned int flags, sci_error_t *error);

/* Whether all stores since the start have arrived. A death is seen within milliseconds.
  flags  SCI_FLAG_NO_FLUSH, SCI_FLAG_NO_STORE_BARRIER have no effect.
SCI_ERR_OK */
sci_sequence_status_t SCICheckSequence(sci_sequence_t sequence, unsigned int flags, sci_error_t *error);

/* Stores before it are visible before stores, and loads, behind it. SCIFlushReadBuffers lets later
loads see what others have stored; SCIFlush does both. */
void SCIStoreBarrier(sci_sequence_t sequence, unsigned int flags);
void SCIFlushReadBuffers(sci_sequence_t sequence);
void SCIFlush(sci_sequence_t sequence, unsigned int flags);

/* Copies memory into a map.
  sequence  may be NULL without SCI_FLAG_ERROR_CHECK.
  flags     SCI_FLAG_BLOCK_READ: out of the map. SCI_FLAG_ERROR_CHECK: checks the sequence at
            the end.
SCI_ERR_OK; SCI_ERR_OUT_OF_RANGE; SCI_ERR_ACCESS: mapped for reading. SCI_ERR_NOT_CONNECTED,
SCI_ERR_NODE_NOT_RESPONDING, SCI_ERR_TRANSFER_FAILED: the connection has ended. */
void SCIMemCpy(sci_sequence_t sequence, void *memAddr, sci_map_t remoteMap, size_t remoteOffset, size_t size, unsigned int flags,
               sci_error_t *error);

/* The same without a sequence.
SCI_ERR_OK */
void SCIMemCopy(void *memAddr, sci_map_t remoteMap, size_t remoteOffset, size_t size, unsigned int flags, sci_error_t *error);

/* Copies memory to an address in a map, which is not checked.
SCI_ERR_OK */
void SCIMemWrite(void *memAddr, volatile void *remoteAddr, size_t size, unsigned int flags, sci_error_t *error);

/* -------------------- DMA queues */

/* Creates a queue for transfers beside the program. A thread of the library copies, or a thread
that waits for the transfer; transfers of up to 32 KiB are copied by the call that starts them.
  maxEntries  1 to 65536 transfers at a time.
SCI_ERR_OK */
void SCICreateDMAQueue(sci_desc_t sd, sci_dma_queue_t *dq, unsigned int localAdapterNo, unsigned int maxEntries, unsigned int flags,
                       sci_error_t *error);

/* Removes it.
SCI_ERR_OK; SCI_ERR_BUSY: transfers are under way. */
void SCIRemoveDMAQueue(sci_dma_queue_t dq, unsigned int flags, sci_error_t *error);

/* Adds a transfer, and returns the state.
  flags  SCI_FLAG_DMA_READ: from the remote segment. SCI_FLAG_DMA_POST: posts the queue.
         SCI_FLAG_DMA_WAIT: and waits. SCI_FLAG_DMA_RESET: resets it first.
SCI_ERR_OK; SCI_ERR_MAX_ENTRIES; SCI_ERR_OUT_OF_RANGE; SCI_ERR_SEGMENT_NOT_CONNECTED;
SCI_ERR_ILLEGAL_OPERATION: neither idle nor gathering. */
sci_dma_queue_state_t SCIEnqueueDMATransfer(sci_dma_queue_t dq, sci_local_segment_t localSegment, sci_remote_segment_t remoteSegment,
                                            size_t localOffset, size_t remoteOffset, size_t size, unsigned int flags,
                                            sci_error_t *error);

/* Starts the transfers that were added.
  callback  with SCI_FLAG_USE_CALLBACK, is told the end. What it returns has no effect.
  flags     SCI_FLAG_DMA_WAIT: returns at the end, with its error.
SCI_ERR_OK; SCI_ERR_ILLEGAL_OPERATION: nothing was added. SCI_ERR_TRANSFER_FAILED: the owner was
lost. SCI_ERR_CANCELLED: aborted. */
void SCIPostDMAQueue(sci_dma_queue_t dq, sci_cb_dma_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);

/* Ends what is under way; nothing is written after it.
SCI_ERR_OK; SCI_ERR_ILLEGAL_OPERATION: nothing is. */
void SCIAbortDMAQueue(sci_dma_queue_t dq, unsigned int flags, sci_error_t *error);

/* Makes the queue idle.
SCI_ERR_OK; SCI_ERR_BUSY: transfers are under way. */
void SCIResetDMAQueue(sci_dma_queue_t dq, unsigned int flags, sci_error_t *error);

/* The state; SCI_DMAQUEUE_ERROR if the handle names nothing. */
sci_dma_queue_state_t SCIDMAQueueState(sci_dma_queue_t dq);

/* Waits until no transfer is under way, and returns the state. The waiter copies too.
SCI_ERR_OK; SCI_ERR_TIMEOUT; SCI_ERR_ILLEGAL_OPERATION: never started. */
sci_dma_queue_state_t SCIWaitForDMAQueue(sci_dma_queue_t dq, unsigned int timeout, unsigned int flags, sci_error_t *error);

/* Starts a transfer. Up to maxEntries may be under way; they are done in order.
  flags  SCI_FLAG_USE_CALLBACK, SCI_FLAG_DMA_WAIT, SCI_FLAG_DMA_READ; flags that choose an
         engine have no effect.
SCI_ERR_OK; SCI_ERR_MAX_ENTRIES; SCI_ERR_OUT_OF_RANGE; SCI_ERR_SEGMENT_NOT_CONNECTED;
SCI_ERR_ILLEGAL_OPERATION: the queue gathers. SCI_ERR_TRANSFER_FAILED, SCI_ERR_CANCELLED: with
SCI_FLAG_DMA_WAIT, how it ended. */
void SCIStartDmaTransfer(sci_dma_queue_t dq, sci_local_segment_t localSegment, sci_remote_segment_t remoteSegment, size_t localOffset,
                         size_t size, size_t remoteOffset, sci_cb_dma_t callback, void *callbackArg, unsigned int flags,
                         sci_error_t *error);

/* The same of up to DIS_DMA_MAX_VECLEN parts, done in order.
SCI_ERR_OK */
void SCIStartDmaTransferVec(sci_dma_queue_t dq, sci_local_segment_t localSegment, sci_remote_segment_t remoteSegment,
                            size_t vecLength, dis_dma_vec_t *disDmaVec, sci_cb_dma_t callback, void *callbackArg, unsigned int flags,
                            sci_error_t *error);

/* The same from the program's memory, or into it, which must stay until the end.
SCI_ERR_OK */
void SCIStartDmaTransferMem(sci_dma_queue_t dq, void *address, sci_remote_segment_t remoteSegment, size_t size, size_t remoteOffset,
                            sci_cb_dma_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);

/* -------------------- block transfers */

/* Copies from one map to another.
SCI_ERR_OK; SCI_ERR_OUT_OF_RANGE; SCI_ERR_ACCESS: the target is mapped for reading.
SCI_ERR_NOT_CONNECTED, SCI_ERR_NODE_NOT_RESPONDING, SCI_ERR_TRANSFER_FAILED: a connection has
ended. */
void SCITransferBlock(sci_map_t sourceMap, size_t sourceOffset, sci_map_t destinationMap, size_t destinationOffset, size_t size,
                      unsigned int flags, sci_error_t *error);

/* The same beside the program. Each has to be waited for, also with a callback.
SCI_ERR_OK */
void SCITransferBlockAsync(sci_map_t sourceMap, size_t sourceOffset, sci_map_t destinationMap, size_t destinationOffset, size_t size,
                           sci_block_transfer_t *block, sci_cb_block_transfer_t callback, void *callbackArg, unsigned int flags,
                           sci_error_t *error);

/* Waits for the end, after which the handle names nothing.
SCI_ERR_OK; SCI_ERR_TIMEOUT: wait again. SCI_ERR_TRANSFER_FAILED, SCI_ERR_CANCELLED: how it
ended. */
void SCIWaitForBlockTransfer(sci_block_transfer_t block, unsigned int timeout, unsigned int flags, sci_error_t *error);

/* Ends it; nothing is written after it.
SCI_ERR_OK */
void SCIAbortBlockTransfer(sci_block_transfer_t block, unsigned int flags, sci_error_t *error);

/* -------------------- interrupts */

/* Creates an interrupt that others may trigger.
  interruptNo  where its number goes; with SCI_FLAG_FIXED_INTNO, the number.
  callback     with SCI_FLAG_USE_CALLBACK, runs for each.
  flags        SCI_FLAG_FIXED_INTNO; SCI_FLAG_SHARED_INT: up to 8 interrupts of a node may have
               the number, and all are triggered; SCI_FLAG_COUNTING_INT: each is counted (else
               several before a wait are one).
SCI_ERR_OK; SCI_ERR_INTNO_USED: another one of the node has the number. */
void SCICreateInterrupt(sci_desc_t sd, sci_local_interrupt_t *interrupt, unsigned int localAdapterNo, unsigned int *interruptNo,
                        sci_cb_interrupt_t callback, void *callbackArg, unsigned int flags, sci_error_t *error);

/* Removes it. Its callback does not run any more.
SCI_ERR_OK */
void SCIRemoveInterrupt(sci_local_interrupt_t interrupt, unsigned int flags, sci_error_t *error);

/* Waits for an interrupt.
SCI_ERR_OK; SCI_ERR_TIMEOUT; SCI_ERR_CANCELLED: removed meanwhile. SCI_ERR_ILLEGAL_OPERATION: a
callback takes them. */
void SCIWaitForInterrupt(sci_local_interrupt_t interrupt, unsigned int timeout, unsigned int flags, sci_error_t *error);

/* Connects to an interrupt of another process; waits for one that is not there yet.
SCI_ERR_OK; SCI_ERR_NO_SUCH_INTNO; SCI_ERR_CONNECTION_REFUSED: of another user.
SCI_ERR_NO_SUCH_NODEID, SCI_ERR_NODE_NOT_RESPONDING, SCI_ERR_ILLEGAL_NODEID: as SCIProbeNode. */
void SCIConnectInterrupt(sci_desc_t sd, sci_remote_interrupt_t *interrupt, unsigned int nodeId, unsigned int localAdapterNo,
                         unsigned int interruptNo, unsigned int timeout, unsigned int flags, sci_error_t *error);

/* Leaves.
SCI_ERR_OK */
void SCIDisconnectInterrupt(sci_remote_interrupt_t interrupt, unsigned int flags, sci_error_t *error);

/* Triggers it. The owner sees earlier stores when it wakes.
SCI_ERR_OK; SCI_ERR_NOT_CONNECTED: the owner is gone. */
void SCITriggerInterrupt(sci_remote_interrupt_t interrupt, unsigned int flags, sci_error_t *error);

/* -------------------- interrupt flags */

/* Creates an interrupt by stores of others to a word of a local segment, the flag. They store
through a map of its place: with SCI_FLAG_CONDITIONAL_INTERRUPT_MAP to a conditional flag, with
SCI_FLAG_UNCONDITIONAL_DATA_INTERRUPT_MAP to another one. SCIWaitForInterrupt waits for it, and
SCIRemoveInterrupt removes it. Several before a wait are one.
  offset    where the word of four bytes lies; a multiple of 4.
  callback  with SCI_FLAG_USE_CALLBACK, runs for each.
  flags     SCI_FLAG_CONDITIONAL_INTERRUPT: a store adds one to the word, in place of its value,
            and interrupts if that was 0. The flag is disabled at first.
SCI_ERR_OK; SCI_ERR_OUT_OF_RANGE; SCI_ERR_OFFSET_ALIGNMENT. SCI_ERR_ILLEGAL_OPERATION: an empty
segment, or of another owner. */
void SCIRegisterInterruptFlag(unsigned int localAdapterNo, sci_local_interrupt_t *interrupt, sci_local_segment_t segment,
                              size_t offset, sci_cb_interrupt_t callback, void *callbackArg, unsigned int flags,
                              sci_error_t *error);

/* Has the next trigger of a conditional flag interrupt, and no later one.
SCI_ERR_OK; SCI_ERR_COND_INT_RACE_PROBLEM: it was triggered since the interrupt was taken, or
since the last of these calls; the flag stays as it is. Look at what it tells of, then try again.
SCI_ERR_ILLEGAL_OPERATION: no conditional flag. SCI_ERR_NOT_CONNECTED: the segment is gone. */
void SCIEnableConditionalInterrupt(sci_local_interrupt_t interrupt, unsigned int flags, sci_error_t *error);

/* Has no trigger interrupt; one that has come before may still do so.
SCI_ERR_OK; SCI_ERR_ILLEGAL_OPERATION, SCI_ERR_NOT_CONNECTED: as above. */
void SCIDisableConditionalInterrupt(sci_local_interrupt_t interrupt, unsigned int flags, sci_error_t *error);

/* The triggers since the flag was enabled or disabled. Stores of one process to the same flag
within some 100 us are one.
SCI_ERR_OK; SCI_ERR_OVERFLOW: more than can be counted. SCI_ERR_ILLEGAL_OPERATION,
SCI_ERR_NOT_CONNECTED: as above. */
void SCIGetConditionalInterruptTrigCounter(sci_local_interrupt_t interrupt, unsigned int *counter, unsigned int flags,
                                           sci_error_t *error);

/* -------------------- data interrupts */

/* Creates a data interrupt. Each carries 1 to 4096 bytes; those of a sender come in order.
SCI_ERR_OK; SCI_ERR_INTNO_USED: another one of the node has the number. */
void SCICreateDataInterrupt(sci_desc_t sd, sci_local_data_interrupt_t *interrupt, unsigned int localAdapterNo,
                            unsigned int *interruptNo, sci_cb_data_interrupt_t callback, void *callbackArg, unsigned int flags,
                            sci_error_t *error);

/* Removes it. Its callback does not run any more.
SCI_ERR_OK */
void SCIRemoveDataInterrupt(sci_local_data_interrupt_t interrupt, unsigned int flags, sci_error_t *error);

/* Waits for the next one.
  length  the size of data, then the bytes that there are.
SCI_ERR_OK; SCI_ERR_TIMEOUT; SCI_ERR_CANCELLED: removed meanwhile. SCI_ERR_OVERFLOW: data has
the beginning; the rest is gone. SCI_ERR_ILLEGAL_OPERATION: a callback takes them. */
void SCIWaitForDataInterrupt(sci_local_data_interrupt_t interrupt, void *data, unsigned int *length, unsigned int timeout,
                             unsigned int flags, sci_error_t *error);

/* Connects, as SCIConnectInterrupt.
SCI_ERR_OK */
void SCIConnectDataInterrupt(sci_desc_t sd, sci_remote_data_interrupt_t *interrupt, unsigned int nodeId, unsigned int localAdapterNo,
                             unsigned int interruptNo, unsigned int timeout, unsigned int flags, sci_error_t *error);

/* Leaves. Data that was sent arrives.
SCI_ERR_OK */
void SCIDisconnectDataInterrupt(sci_remote_data_interrupt_t interrupt, unsigned int flags, sci_error_t *error);

/* Sends 1 to 4096 bytes.
SCI_ERR_OK; SCI_ERR_OUT_OF_RANGE; SCI_ERR_EWOULD_BLOCK: the owner has not taken those before;
try again. SCI_ERR_NOT_CONNECTED: the owner is gone. */
void SCITriggerDataInterrupt(sci_remote_data_interrupt_t interrupt, void *data, unsigned int length, unsigned int flags,
                             sci_error_t *error);

/* -------------------- calls of hardware */

/* These need hardware that is emulated nowhere here: addresses of a bus, registers of an adapter,
devices of other hosts (SmartIO). SCI_ERR_NOT_SUPPORTED */
void SCIAttachPhysicalMemory(sci_ioaddr_t ioaddress, void *address, unsigned int busNo, size_t size, sci_local_segment_t segment,
                             unsigned int flags, sci_error_t *error);
void SCIConnectSCISpace(sci_desc_t sd, unsigned int localAdapterNo, sci_remote_segment_t *segment, sci_ioaddr_t address, size_t size,
                        unsigned int flags, sci_error_t *error);
unsigned int SCIGetCSRRegister(sci_desc_t sd, unsigned int localAdapterNo, unsigned int nodeId, unsigned int CSROffset,
                               unsigned int flags, sci_error_t *error);
void SCISetCSRRegister(sci_desc_t sd, unsigned int localAdapterNo, unsigned int nodeId, unsigned int CSROffset,
                       unsigned int CSRValue, unsigned int flags, sci_error_t *error);
unsigned int SCIGetLocalCSR(sci_desc_t sd, unsigned int localAdapterNo, unsigned int CSROffset, unsigned int flags,
                            sci_error_t *error);
void SCISetLocalCSR(sci_desc_t sd, unsigned int localAdapterNo, unsigned int CSROffset, unsigned int CSRValue, unsigned int flags,
                    sci_error_t *error);
void SCIphDmaEnqueue(sci_dma_queue_t dq, unsigned int size, sci_ioaddr_t local, sci_ioaddr_t remote, unsigned int flags,
                     sci_error_t *error);
sci_dma_queue_state_t SCIphDmaStart(sci_dma_queue_t dq, sci_cb_dma_t callback, void *callbackArg, unsigned int flags,
                                    sci_error_t *error);
void SCIRegisterPCIeRequester(sci_desc_t sd, unsigned int localAdapterNo, unsigned int bus, unsigned int device,
                              unsigned int function, unsigned int flags, sci_error_t *error);
void SCIUnregisterPCIeRequester(sci_desc_t sd, unsigned int localAdapterNo, unsigned int bus, unsigned int device,
                                unsigned int function, unsigned int flags, sci_error_t *error);
void SCIBorrowDevice(sci_desc_t sd, sci_device_t *device, unsigned long long fdid, unsigned int flags, sci_error_t *error);
void SCIReturnDevice(sci_device_t device, unsigned int flags, sci_error_t *error);
void SCIConnectDeviceSegment(sci_device_t device, sci_remote_segment_t *segment, unsigned int segmentId, unsigned int memType,
                             unsigned int flags, sci_error_t *error);
void SCICreateDeviceSegment(sci_desc_t sd, sci_local_segment_t *segment, unsigned int segmentId, sci_device_t device, size_t size,
                            unsigned int access, unsigned int flags, sci_error_t *error);
void SCIMapLocalSegmentForDevice(sci_local_segment_t segment, sci_device_t device, sci_ioaddr_t *address, unsigned int flags,
                                 sci_error_t *error);
void SCIMapRemoteSegmentForDevice(sci_remote_segment_t segment, sci_device_t device, sci_ioaddr_t *address, unsigned int flags,
                                  sci_error_t *error);
void SCIGetDeviceList(sci_desc_t sd, void *list, unsigned int *count, unsigned int flags, sci_error_t *error);
void SCIGetFabricDeviceId(sci_desc_t sd, unsigned int localAdapterNo, unsigned long long *fdid, unsigned int flags,
                          sci_error_t *error);

#ifdef __cplusplus
}
#endif

#endif
